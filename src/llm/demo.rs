//! `demo`: a small deterministic planner that speaks the same protocol as a model.
//!
//! It needs no key and no network, so that the first minute, demonstrations and tests drive the real
//! loop and the real tools. It knows arithmetic, in symbols and in words, and the time; everything
//! else it declines. It reads nothing but the messages that a model would be sent.

mod arithmetic;
mod lookup;
mod token;

use arithmetic::{Expression, Operand, Operation};
use lookup::{Extreme, Lookup};

use super::{Finish, Listener, Llm, Reply, Request};
use crate::error::{Class, Error, Result};
use crate::session::event::{Role, Usage};

/// The name that people know it by.
pub(crate) const NAME: &str = "demo";

/// The planner. It keeps nothing between calls.
pub(crate) struct Demo;

impl Llm for Demo {
    fn name(&self) -> &str {
        NAME
    }

    fn ask(&mut self, request: &Request<'_>, listener: &mut dyn Listener) -> Result<Reply> {
        if !request.functions.is_empty() {
            return Err(Error::Endpoint {
                class: Class::Functions,
                url: NAME.to_owned(),
                message: "it takes no functions".to_owned(),
                hint: None,
            });
        }
        if request.schema.is_some() {
            let what = "`demo` does not write decisions";
            return Err(Error::config_hint(what, "--engine react"));
        }
        let prompt = Prompt::read(request);
        let text = if is_about_now(prompt.question) {
            prompt.tell_time()
        } else if let Some(lookup) = Lookup::read(prompt.question) {
            prompt.look_up(&lookup)
        } else if let Some(expression) = Expression::read(prompt.question) {
            prompt.compute(&expression)
        } else {
            Err("it only does arithmetic, the time, prices and temperatures".to_owned())
        };
        let text = text.map_err(Error::Declined)?;
        let _ = listener.hear(&text);
        Ok(Reply {
            text,
            calls: Vec::new(),
            usage: Usage::default(),
            finish: Finish::Stop,
        })
    }
}

/// What is of use in the messages.
struct Prompt<'a> {
    instructions: &'a str,
    question: &'a str,
    /// What the tools gave since the question, without the marker.
    observations: Vec<&'a str>,
}

type Text = std::result::Result<String, String>;

impl<'a> Prompt<'a> {
    fn read(request: &Request<'a>) -> Self {
        let mut prompt = Self {
            instructions: "",
            question: "",
            observations: Vec::new(),
        };
        for message in request.messages {
            match (message.role, message.content.strip_prefix("Observation")) {
                (Role::System, _) => prompt.instructions = &message.content,
                (Role::User, Some(observation)) => {
                    let text = observation
                        .split_once(':')
                        .map_or(observation, |(_, text)| text);
                    // Under the result may stand a hint.
                    prompt
                        .observations
                        .push(text.trim().lines().next().unwrap_or_default());
                }
                (Role::User, None) => {
                    let question = message.content.strip_prefix("Question:");
                    let question = question.unwrap_or(&message.content);
                    prompt.question = question.split("\n\n").next().unwrap_or_default();
                    prompt.observations.clear();
                }
                (Role::Assistant | Role::Tool, _) => {}
            }
        }
        prompt
    }

    fn knows(&self, tool: &str) -> bool {
        self.instructions.contains(&format!("{tool}("))
    }

    /// The number of the step that comes next.
    fn step(&self) -> usize {
        self.observations.len() + 1
    }

    fn act(&self, thought: &str, action: &str) -> String {
        let step = self.step();
        format!("Thought{step}: {thought}\nAction{step}: {action}")
    }

    fn answer(&self, thought: &str, answer: &str) -> String {
        format!("Thought{}: {thought}\nAnswer: {answer}", self.step())
    }

    fn tell_time(&self) -> Text {
        match self.observations.first() {
            Some(now) => Ok(self.answer("I know the time now.", &format!("It is {now}."))),
            None if self.knows("current_time") => {
                Ok(self.act("I need to look at the clock.", "current_time()"))
            }
            None => Err("there is no `current_time` tool".to_owned()),
        }
    }

    fn look_up(&self, lookup: &Lookup) -> Text {
        match lookup {
            Lookup::Prices(coins, extreme) => self.price(coins, *extreme),
            Lookup::Temperature { place, fahrenheit } => self.measure(place, *fahrenheit),
        }
    }

    fn price(&self, coins: &[String], extreme: Option<Extreme>) -> Text {
        if !self.knows("price_tool") {
            return Err("there is no `price_tool`".to_owned());
        }
        if let Some(coin) = coins.get(self.observations.len()) {
            return Ok(self.act(
                &format!("I need the price of {coin}."),
                &format!("price_tool(\"{coin}\")"),
            ));
        }
        let found: Vec<(&String, &str)> = coins
            .iter()
            .zip(self.observations.iter().copied())
            .collect();
        let number = |price: &str| {
            price
                .trim_start_matches('$')
                .split(' ')
                .next()?
                .parse::<f64>()
                .ok()
        };
        let mut priced: Vec<(f64, &String, &str)> = found
            .iter()
            .filter_map(|(coin, price)| Some((number(price)?, *coin, *price)))
            .collect();
        priced.sort_by(|a, b| a.0.total_cmp(&b.0));
        let chosen = match extreme {
            Some(Extreme::Highest) => priced.last().map(|chosen| (chosen, "most expensive")),
            Some(Extreme::Lowest) => priced.first().map(|chosen| (chosen, "cheapest")),
            None => None,
        };
        let list = |(coin, price): &(&String, &str)| match price.strip_prefix("Error: ") {
            Some(why) => format!("the price of {coin} was not found ({why})"),
            None => format!("the price of {coin} is {price}"),
        };
        let all: Vec<String> = found.iter().map(list).collect();
        let answer = match chosen {
            Some(((_, coin, _), word)) if priced.len() == found.len() => {
                format!("{coin} is the {word}: {}", all.join(", "))
            }
            _ => all.join(", "),
        };
        Ok(self.answer(
            "I have looked up every price.",
            &self.with_steps(&capital(&answer), &all),
        ))
    }

    fn measure(&self, place: &str, fahrenheit: bool) -> Text {
        if !self.knows("wikipedia_coordinates") || !self.knows("get_temperature") {
            return Err("there is no tool for the temperature of a place".to_owned());
        }
        if let Some(why) = self
            .observations
            .iter()
            .find_map(|text| text.strip_prefix("Error: "))
        {
            let answer = format!("The temperature in {place} was not found: {why}");
            return Ok(self.answer("That did not work.", &answer));
        }
        match self.observations[..] {
            [] => Ok(self.act(
                &format!("I need to know where {place} is."),
                &format!("wikipedia_coordinates(\"{place}\")"),
            )),
            [found] => {
                let found: serde_json::Value = serde_json::from_str(found).unwrap_or_default();
                let unit = if fahrenheit { ", \"fahrenheit\"" } else { "" };
                let (latitude, longitude) = (&found["latitude"], &found["longitude"]);
                let action = format!("get_temperature({latitude}, {longitude}{unit})");
                Ok(self.act("Now I ask for the temperature there.", &action))
            }
            [found, measured, ..] => {
                let degrees = measured.rsplit(" is ").next().unwrap_or(measured);
                let answer = format!("The temperature in {place} is {degrees}.");
                let steps = [format!("{place} lies at {found}"), measured.to_owned()];
                Ok(self.answer("I know the temperature.", &self.with_steps(&answer, &steps)))
            }
        }
    }

    /// The answer with the steps under it, if there was more than one and they are wanted.
    fn with_steps(&self, answer: &str, steps: &[String]) -> String {
        let mut text = answer.to_owned();
        if steps.len() > 1 && self.instructions.contains("numbered list") {
            for (number, step) in steps.iter().enumerate() {
                let start = if number == 0 { "\n\n" } else { "\n" };
                text += &format!("{start}{}. {step}", number + 1);
            }
        }
        text
    }

    fn compute(&self, expression: &Expression) -> Text {
        if let Some(failure) = self
            .observations
            .iter()
            .find(|text| text.starts_with("Error"))
        {
            return Ok(self.answer(
                "The calculation failed.",
                &format!("{expression} cannot be computed. {failure}"),
            ));
        }
        let operations = expression.operations();
        let in_steps = operations
            .iter()
            .all(|step| step.tool.is_some_and(|tool| self.knows(tool)));
        let next = match in_steps {
            true => operations
                .get(self.observations.len())
                .map(|operation| self.next(operation)),
            false if !self.knows("calculate") => {
                return Err("no loaded tool does this arithmetic".to_owned());
            }
            false if self.observations.is_empty() => {
                let action = format!("calculate(\"{expression}\")");
                Some(self.act("I can calculate this at once.", &action))
            }
            false => None,
        };
        if let Some(next) = next {
            return Ok(next);
        }
        let result = self.observations.last().copied().unwrap_or_default();
        let done = |(operation, result): (&Operation, &&str)| {
            let (left, right) = (self.value(&operation.left), self.value(&operation.right));
            format!("{left} {} {right} = {result}", operation.sign)
        };
        let steps: Vec<String> = match in_steps {
            true => operations
                .iter()
                .zip(&self.observations)
                .map(done)
                .collect(),
            false => Vec::new(),
        };
        let answer = self.with_steps(&format!("{expression} = {result}"), &steps);
        Ok(self.answer("I have every number that I need.", &answer))
    }

    fn next(&self, operation: &Operation) -> String {
        let (left, right) = (self.value(&operation.left), self.value(&operation.right));
        let first = if self.observations.is_empty() {
            "First"
        } else {
            "Now"
        };
        self.act(
            &format!("{first} I work out {left} {} {right}.", operation.sign),
            &format!("{}({left}, {right})", operation.tool.unwrap_or_default()),
        )
    }

    fn value(&self, operand: &Operand) -> String {
        match operand {
            Operand::Number(number) => number.clone(),
            Operand::Result(step) => self
                .observations
                .get(*step)
                .copied()
                .unwrap_or("?")
                .to_owned(),
        }
    }
}

/// Whether the question is for the time here and now, and for nothing else.
fn is_about_now(question: &str) -> bool {
    arithmetic::mentions(question, &["time", "date", "day", "clock"])
        && !arithmetic::mentions(question, &["in", "of", "at", "by"])
        && !question.contains(|c: char| c.is_ascii_digit())
}

/// The text with a capital letter.
fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| {
        first.to_uppercase().chain(chars).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::event::Message;
    use std::ops::ControlFlow;

    struct Deaf;

    impl Listener for Deaf {
        fn hear(&mut self, _: &str) -> ControlFlow<()> {
            ControlFlow::Continue(())
        }

        fn again(&mut self) -> bool {
            true
        }
    }

    const TOOLS: &str = "add_numbers(x, y) subtract_numbers(x, y) multiply_numbers(x, y) \
        divide_numbers(x, y) current_time() calculate(expression) numbered list";

    fn says(tools: &str, question: &str, observations: &[&str]) -> Result<String> {
        let mut messages = vec![Message::system(tools), Message::user(question)];
        for observation in observations {
            messages.push(Message::user(format!("Observation1: {observation}")));
        }
        let request = Request {
            messages: &messages,
            ..Request::default()
        };
        Demo.ask(&request, &mut Deaf).map(|reply| reply.text)
    }

    #[test]
    fn it_goes_step_by_step_and_ends_in_an_answer() {
        let question = "What is 10 * 3 + 10?";
        let said = says(TOOLS, question, &[]).unwrap();
        assert!(said.ends_with("Action1: multiply_numbers(10, 3)"), "{said}");
        let said = says(TOOLS, question, &["30"]).unwrap();
        assert!(said.ends_with("Action2: add_numbers(30, 10)"), "{said}");
        let said = says(TOOLS, question, &["30", "40"]).unwrap();
        assert!(
            said.ends_with("Answer: 10 * 3 + 10 = 40\n\n1. 10 * 3 = 30\n2. 30 + 10 = 40"),
            "{said}"
        );
    }

    #[test]
    fn it_uses_what_is_loaded_and_declines_the_rest() {
        let said = says("calculate(expression)", "2 to the power of 10", &[]).unwrap();
        assert!(said.ends_with("Action1: calculate(\"2 ^ 10\")"), "{said}");
        assert!(says("", "What is 1 + 1?", &[]).is_err());
        assert!(says(TOOLS, "Who wrote Faust?", &[]).is_err());
        let said = says(TOOLS, "7 / 0", &["Error: division by zero"]).unwrap();
        assert!(said.contains("Answer: 7 / 0 cannot be computed."), "{said}");
    }
}
