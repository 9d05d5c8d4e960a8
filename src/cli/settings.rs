//! Names the settings in messages of the library by the options of the command.

use cagey::Error;
use cagey::advice::{Advice, Setting};

/// Advice in the words of the command.
pub fn words(advice: &Advice) -> String {
    advice.shown(option)
}

/// An error in the words of the command.
pub fn error(error: &Error) -> String {
    words(&error.advice())
}

/// The option for a setting. Most options have the name of the field.
pub fn option(Setting { field, value }: &Setting) -> String {
    let own = field.rsplit("::").next().unwrap_or_default().replace('_', "-");
    let (name, value) = match (&**field, value.as_deref()) {
        ("CagpOptions::objective", value) => ("loss", value),
        ("CgGpOptions::rank", value) => ("rank", value),
        ("Compute::precision", value) => ("dtype", value),
        ("Federation::share", value) => ("clients", value),
        ("ReadOptions::decimal_comma", _) => ("decimal", Some("comma")),
        ("Settings::priors", value) => ("prior", value),
        ("SparseGridOptions::bound", value) => ("grid-bound", value),
        ("SparseGridOptions::variance", value) => ("grid-variance", value),
        ("SwsgpOptions::covariance", _) => ("mean-field", None),
        (_, value) => (&*own, value),
    };
    match value {
        Some(value) => format!("--{name} {value}"),
        None => format!("--{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Cli;
    use clap::CommandFactory;

    /// Every field that the library speaks of is an option of some subcommand.
    #[test]
    fn settings_are_options() {
        let mut cagey = Cli::command();
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
                        let option = super::option(&super::Setting { field: field.clone().into(), value: None });
                        let name = option.trim_start_matches("--").split(' ').next().unwrap();
                        assert!(known.contains(&name), "{field}: there is no option {option}");
                        fields += 1;
                    }
                }
            }
        }
        assert!(fields > 20, "{fields}");
    }
}
