//! The program: see the library.

fn main() -> std::process::ExitCode {
    reagent::run(std::env::args_os().collect())
}
