//! Settings that the library names in messages, as options.

use cagey::advice::Setting;
use cagey::cli::command;
use cagey::cli::settings::option;

/// Every field that the library speaks of is an option of some subcommand.
#[test]
fn settings_are_options() {
    let mut cagey = command();
    cagey.build();
    let arguments = cagey.get_subcommands().flat_map(clap::Command::get_arguments);
    let known: Vec<&str> = arguments.filter_map(clap::Arg::get_long).collect();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join("src"), root.join("crates")];
    let mut fields = 0;
    while let Some(path) = folders.pop() {
        if path.is_dir() {
            folders.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let source = std::fs::read_to_string(&path).unwrap_or_default();
        for call in [".about(\"", ".set(\""] {
            for found in source.split(call).skip(1) {
                let field = found.split('"').next().unwrap().to_string();
                if field.chars().next().is_some_and(char::is_uppercase) {
                    let option = option(&Setting { field: field.clone().into(), value: None });
                    let name = option.trim_start_matches("--").split(' ').next().unwrap();
                    assert!(known.contains(&name), "{field}: there is no option {option}");
                    fields += 1;
                }
            }
        }
    }
    assert!(fields > 20, "{fields}");
}
