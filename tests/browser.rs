//! A real browser without a window, for what only a browser can say about a page: Chromium, by the name that is in
//! `REAGENT_TEST_CHROMIUM`. Without one those tests are passed over, unless `REAGENT_TEST_NO_SKIP=1` forbids it.

use std::fs;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::test::wait;

pub(crate) struct Browser {
    program: String,
    folder: TempDir,
}

impl Browser {
    /// None if there is none to test with.
    pub(crate) fn find() -> Option<Self> {
        let program = std::env::var("REAGENT_TEST_CHROMIUM").unwrap_or_default();
        if program.is_empty() {
            let must = std::env::var("REAGENT_TEST_NO_SKIP").is_ok_and(|value| value == "1");
            assert!(
                !must,
                "REAGENT_TEST_CHROMIUM names no browser, and no test may be skipped"
            );
            eprintln!("skipped: REAGENT_TEST_CHROMIUM names no browser");
            return None;
        }
        let folder = tempfile::Builder::new()
            .prefix("reagent-browser-")
            .tempdir();
        Some(Self {
            program,
            folder: folder.unwrap(),
        })
    }

    /// The document as it is once the page has been loaded and its scripts have run.
    #[track_caller]
    pub(crate) fn dom(&self, page: &str) -> String {
        let file = self.folder.path().join("page.html");
        let out = self.folder.path().join("dom.html");
        fs::write(&file, page).unwrap();
        let profile = self.folder.path().join("profile");
        let mut child = Command::new(&self.program)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
            ])
            .args(["--no-first-run", "--hide-scrollbars"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .args(["--virtual-time-budget=20000", "--dump-dom"])
            .arg(format!("file://{}", file.display()))
            .env("HOME", self.folder.path())
            .stdout(fs::File::create(&out).unwrap())
            .stderr(fs::File::create(self.folder.path().join("log")).unwrap())
            .spawn()
            .expect("starting the browser");
        let (status, _) = wait(&mut child, Duration::from_secs(120));
        let dom = fs::read_to_string(&out).unwrap();
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap();
        assert!(status.is_some_and(|status| status.success()), "{log}");
        assert!(dom.contains("</html>"), "{dom}\n{log}");
        dom
    }

    /// The page's title once it has been loaded.
    #[track_caller]
    pub(crate) fn title(&self, page: &str) -> String {
        let dom = self.dom(page);
        let (_, title) = dom.split_once("<title>").unwrap_or_default();
        let (title, _) = title.split_once("</title>").unwrap_or_default();
        title.to_owned()
    }

    /// How wide the page's content is on screens of these widths, with everything unfolded. The window of a browser
    /// cannot be as narrow as a phone; a frame in another page can.
    #[track_caller]
    pub(crate) fn widths(&self, page: &str, screens: &[u32]) -> Vec<u32> {
        let frame = page.replace('&', "&amp;").replace('"', "&quot;");
        let title = self.title(&format!(
            "<!DOCTYPE html><title>none</title><iframe style='border:0;height:800px' srcdoc=\"{frame}\"></iframe>\n\
             <script>\n\
             onload = () => {{\n\
               const frame = document.querySelector('iframe'), page = frame.contentDocument;\n\
               page.querySelectorAll('details').forEach(fold => fold.open = true);\n\
               document.title = {screens:?}.map(width => {{\n\
                 frame.style.width = width + 'px';\n\
                 return page.documentElement.scrollWidth;\n\
               }}).join(' ');\n\
             }};\n\
             </script>"
        ));
        let widths = title
            .split(' ')
            .map(|width| width.parse().expect("a width"));
        widths.collect()
    }
}
