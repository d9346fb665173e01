//! The roles that text can have, and the style of each. Without colours all styles are empty, which
//! write nothing; so nobody else asks whether there is colour.
//!
//! ```toml
//! [theme]
//! name = "light"                   # dark, light or plain
//! thought = "bright blue bold"     # a role: a colour, and how
//! ```

use owo_colors::{AnsiColors, Style, XtermColors};

use crate::near::did_you_mean;

/// A style for each role. All are different, and every line has a label as well.
#[derive(Debug, Clone, Copy, Default)]
pub struct Theme {
    /// The question.
    pub query: Style,
    /// What the model thinks.
    pub thought: Style,
    /// What it does.
    pub action: Style,
    /// What came of it.
    pub observation: Style,
    /// The answer.
    pub answer: Style,
    /// Every error.
    pub error: Style,
    /// An end without an answer because a limit was reached.
    pub terminate: Style,
    /// What the person should know.
    pub notice: Style,
    /// A reply that could not be used.
    pub malformed: Style,
    /// The frame around a line of the tree, and in answers around tables and beside quotes.
    pub frame: Style,
    /// A heading in an answer.
    pub heading: Style,
    /// Code in an answer.
    pub code: Style,
    /// The address of a link in an answer.
    pub link: Style,
}

/// The themes that have a name, the default first.
pub const NAMES: [&str; 3] = ["dark", "light", "plain"];

/// The roles, as they are called in `config.toml`.
pub const ROLES: [&str; 13] = [
    "query",
    "thought",
    "action",
    "observation",
    "answer",
    "error",
    "terminate",
    "notice",
    "malformed",
    "frame",
    "heading",
    "code",
    "link",
];

/// How text can look besides its colour.
const WAYS: [&str; 5] = ["bold", "dim", "italic", "underline", "reverse"];

const COLORS: [(&str, AnsiColors, AnsiColors); 8] = [
    ("black", AnsiColors::Black, AnsiColors::BrightBlack),
    ("red", AnsiColors::Red, AnsiColors::BrightRed),
    ("green", AnsiColors::Green, AnsiColors::BrightGreen),
    ("yellow", AnsiColors::Yellow, AnsiColors::BrightYellow),
    ("blue", AnsiColors::Blue, AnsiColors::BrightBlue),
    ("magenta", AnsiColors::Magenta, AnsiColors::BrightMagenta),
    ("cyan", AnsiColors::Cyan, AnsiColors::BrightCyan),
    ("white", AnsiColors::White, AnsiColors::BrightWhite),
];

impl Theme {
    /// TinyReAct's colours, for a dark background.
    pub fn dark() -> Self {
        let style = Style::new;
        Self {
            query: style().bright_magenta(),
            thought: style().bright_blue(),
            action: style().bright_cyan(),
            observation: style().bright_yellow(),
            answer: style().bright_green(),
            error: style().bright_red(),
            terminate: style().bright_red(),
            notice: style().dimmed(),
            malformed: style().red(),
            frame: style().dimmed(),
            heading: style().bright_white().bold(),
            code: style().cyan(),
            link: style().blue().underline(),
        }
    }

    /// Dark colours, for a white background: each has a contrast of more than 4.5 to 1 there.
    pub fn light() -> Self {
        let style = |color: u8| Style::new().color(XtermColors::from(color));
        Self {
            query: style(90),
            thought: style(19),
            action: style(23),
            observation: style(94),
            answer: style(22),
            error: style(160),
            terminate: style(160),
            notice: style(242),
            malformed: style(88),
            frame: style(242),
            heading: style(16).bold(),
            code: style(24),
            link: style(26).underline(),
        }
    }

    /// No colours at all: bold, dim and underlined.
    pub fn plain() -> Self {
        let style = Style::new;
        Self {
            query: style().bold(),
            thought: style().italic(),
            action: style().underline(),
            observation: style(),
            answer: style().bold(),
            error: style().bold().underline(),
            terminate: style().bold().underline(),
            notice: style().dimmed(),
            malformed: style().italic().underline(),
            frame: style().dimmed(),
            heading: style().bold().underline(),
            code: style().dimmed().italic(),
            link: style().underline(),
        }
    }

    /// No styles, where no escape is wanted.
    pub fn bare() -> Self {
        Self::default()
    }

    /// The theme of this name; else why there is none.
    pub fn named(name: &str) -> Result<Self, String> {
        match name {
            "dark" => Ok(Self::dark()),
            "light" => Ok(Self::light()),
            "plain" => Ok(Self::plain()),
            _ => Err(format!(
                "there is no theme `{name}`, only {}{}",
                NAMES.join(", "),
                did_you_mean(name, NAMES.into_iter())
            )),
        }
    }

    /// Gives a role another style, in words: `bright blue bold`; else says what is wrong with them.
    pub fn set(&mut self, role: &str, words: &str) -> Result<(), String> {
        let style = style(words)?;
        match self.role(role) {
            Some(place) => *place = style,
            None => {
                let near = did_you_mean(role, ROLES.into_iter());
                return Err(format!("there is no role `{role}`{near}"));
            }
        }
        Ok(())
    }

    /// Whether nothing in it has a style.
    pub fn is_bare(&self) -> bool {
        let mut theme = *self;
        let mut plain = ROLES.iter().filter_map(|role| theme.role(role).copied());
        plain.all(|style| style.is_plain())
    }

    fn role(&mut self, name: &str) -> Option<&mut Style> {
        Some(match name {
            "query" => &mut self.query,
            "thought" => &mut self.thought,
            "action" => &mut self.action,
            "observation" => &mut self.observation,
            "answer" => &mut self.answer,
            "error" => &mut self.error,
            "terminate" => &mut self.terminate,
            "notice" => &mut self.notice,
            "malformed" => &mut self.malformed,
            "frame" => &mut self.frame,
            "heading" => &mut self.heading,
            "code" => &mut self.code,
            "link" => &mut self.link,
            _ => return None,
        })
    }
}

/// The style that these words describe: a colour's name, `bright` before it, or its number of 256; and ways.
fn style(words: &str) -> Result<Style, String> {
    let mut style = Style::new();
    let mut bright = false;
    for word in words.split_whitespace() {
        if let Some((_, normal, light)) = COLORS.iter().find(|(name, ..)| *name == word) {
            style = style.color(if bright { *light } else { *normal });
            bright = false;
            continue;
        }
        if bright {
            return Err("`bright` stands before a colour's name".to_owned());
        }
        style = match word {
            "bright" => {
                bright = true;
                style
            }
            "bold" => style.bold(),
            "dim" => style.dimmed(),
            "italic" => style.italic(),
            "underline" => style.underline(),
            "reverse" => style.reversed(),
            "none" => style,
            _ => match word.parse::<u8>() {
                Ok(number) => style.color(XtermColors::from(number)),
                Err(_) => {
                    let names = COLORS.iter().map(|(name, ..)| *name);
                    let near = did_you_mean(word, names.chain(WAYS).chain(["bright", "none"]));
                    return Err(format!("`{word}` is no colour and no way to write{near}"));
                }
            },
        };
    }
    match bright {
        true => Err("`bright` stands before a colour's name".to_owned()),
        false => Ok(style),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_has_a_place_in_every_theme() {
        for name in NAMES {
            let mut theme = Theme::named(name).unwrap();
            for role in ROLES {
                assert!(theme.role(role).is_some(), "{name} {role}");
                theme.set(role, "none").unwrap();
            }
            assert!(theme.is_bare(), "{name}");
        }
        assert!(!Theme::plain().is_bare());
    }

    #[test]
    fn the_light_theme_can_be_read_on_white() {
        // The cube of 6 x 6 x 6 colours and the greys behind it, as every terminal has them.
        let light = |level: u8| match f64::from(level) / 255.0 {
            low if low <= 0.03928 => low / 12.92,
            high => ((high + 0.055) / 1.055).powf(2.4),
        };
        let mut theme = Theme::light();
        for role in ROLES {
            let written = theme.role(role).unwrap().style("x").to_string();
            let number = written.split("38;5;").nth(1).unwrap();
            let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
            let number: u8 = digits.parse().unwrap();
            let [r, g, b] = match number {
                232.. => [8 + 10 * (number - 232); 3],
                _ => [36, 6, 1]
                    .map(|by| [0, 95, 135, 175, 215, 255][((number - 16) / by % 6) as usize]),
            };
            let luminance = 0.2126 * light(r) + 0.7152 * light(g) + 0.0722 * light(b);
            let contrast = 1.05 / (luminance + 0.05);
            assert!(contrast > 4.5, "{role} has a contrast of {contrast}");
        }
    }

    #[test]
    fn words_describe_a_style_and_wrong_ones_are_told_apart() {
        let written = style("bright blue bold").unwrap().style("x").to_string();
        assert_eq!(written, "\u{1b}[94;1mx\u{1b}[0m");
        for (words, wanted) in [
            (
                "brigth blue",
                "`brigth` is no colour and no way to write; did you mean `bright`?",
            ),
            ("bright", "`bright` stands before a colour's name"),
            ("bright bold", "`bright` stands before a colour's name"),
            ("256", "`256` is no colour and no way to write"),
        ] {
            assert_eq!(style(words).err().as_deref(), Some(wanted));
        }
    }
}
