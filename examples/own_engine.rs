//! An engine of one's own: no tools and no loop of thoughts, but every answer is looked over once more by the
//! model before it is given. Sessions, spans, messages, sinks and limits of time stay what they are.
//!
//!     cargo run --example own_engine
//!
//! It prints:
//!
//! ```text
//! It is 391.
//! INPUT What is 17 * 23?
//! LLM draft
//! LLM review
//! ANSWER success
//! ```

use reagent::agent::Agent;
use reagent::engine::{Answer, Engine, Run, Step};
use reagent::error::Result;
use reagent::llm::scripted::Scripted;
use reagent::llm::{Llm, Request};
use reagent::session::Sinks;
use reagent::session::event::{Fact, Message, SpanKind};

struct Reviewed<L> {
    llm: L,
}

impl<L: Llm> Reviewed<L> {
    /// What is said is on record before it is sent, and the reply after it came.
    fn ask(&mut self, about: &str, run: &mut Run) -> Result<String> {
        let request = Request {
            messages: run.transcript.messages(),
            ..Request::default()
        };
        let reply = run.session.span(SpanKind::Llm, about, |span| {
            let reply = self.llm.ask(&request, &mut ())?;
            span.output(reply.text.as_str());
            span.used(reply.usage);
            Ok(reply)
        })?;
        let message = Message::assistant(reply.text.as_str());
        run.transcript.say(&mut run.session, message)?;
        Ok(reply.text)
    }
}

impl<L: Llm> Engine for Reviewed<L> {
    fn name(&self) -> &'static str {
        "reviewed"
    }

    fn model(&self) -> &str {
        self.llm.name()
    }

    fn ttl(&self) -> u32 {
        2
    }

    fn instructions(&self) -> &str {
        "You answer questions in one sentence."
    }

    fn pose(&self, question: &str) -> String {
        question.to_owned()
    }

    fn step(&mut self, run: &mut Run) -> Result<Step> {
        run.tally.steps += 1;
        run.session.set_step(run.tally.steps);
        if run.tally.steps == 1 {
            self.ask("draft", run)?;
            let review = Message::user("Look it over, and write the answer as it should be.");
            run.transcript.say(&mut run.session, review)?;
            return Ok(Step::Continue(None));
        }
        let text = self.ask("review", run)?;
        run.session.span(SpanKind::Answer, "success", |span| {
            span.output(text.as_str());
            span.record(Fact::Answer { text: text.clone() })
        })?;
        Ok(Step::Finished(Answer {
            text,
            truncated: false,
            unformatted: false,
        }))
    }
}

fn main() -> Result<()> {
    let llm = Scripted::new(["It is 381.", "It is 391."]);
    let mut agent = Agent::new(Box::new(Reviewed { llm }), Sinks::new());
    println!("{}", agent.run("What is 17 * 23?")?.text);
    for span in agent.sessions()[0].spans() {
        println!("{} {}", span.kind.label(), span.title);
    }
    Ok(())
}
