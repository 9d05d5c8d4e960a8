//! What is said to a user, and the settings that it is about.
//!
//! The library does not know how its user sets a setting: in code, or by an option of a command. A text that gives
//! advice therefore names settings apart from its words, as fields: `CagpOptions::actions`. A program over the library
//! shows them in its own way, as the command does by its options.

use std::borrow::Cow;
use std::fmt::{Display, Formatter};

use serde::{Deserialize, Serialize};

/// A setting, and a value for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Setting {
    /// The type and its field: `TrainConfig::steps`.
    pub field: Cow<'static, str>,
    /// The value that helps, or several in words, where the text speaks of one.
    pub value: Option<String>,
}

impl Display for Setting {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{} = {value}", self.field),
            None => write!(f, "{}", self.field),
        }
    }
}

/// A text, and the settings that it speaks of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Form", into = "Form")]
pub struct Advice {
    /// What is said.
    pub text: String,
    /// What it speaks of.
    pub settings: Vec<Setting>,
}

/// Advice in files: a text that is about no setting stands alone, as it did before there were settings.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Form {
    Text(String),
    Whole { text: String, settings: Vec<Setting> },
}

impl From<Form> for Advice {
    fn from(form: Form) -> Self {
        match form {
            Form::Text(text) => text.into(),
            Form::Whole { text, settings } => Self { text, settings },
        }
    }
}

impl From<Advice> for Form {
    fn from(Advice { text, settings }: Advice) -> Self {
        if settings.is_empty() { Self::Text(text) } else { Self::Whole { text, settings } }
    }
}

impl From<String> for Advice {
    fn from(text: String) -> Self {
        Self { text, settings: Vec::new() }
    }
}

impl From<&str> for Advice {
    fn from(text: &str) -> Self {
        text.to_string().into()
    }
}

impl Advice {
    /// The same, about one more field.
    pub fn about(mut self, field: &'static str) -> Self {
        self.settings.push(Setting { field: field.into(), value: None });
        self
    }

    /// The same, about one more field and a value for it.
    pub fn set(mut self, field: &'static str, value: impl Display) -> Self {
        self.settings.push(Setting { field: field.into(), value: Some(value.to_string()) });
        self
    }

    /// The text, and in brackets its settings, each as `show` writes it.
    pub fn shown(&self, show: impl Fn(&Setting) -> String) -> String {
        if self.settings.is_empty() {
            return self.text.clone();
        }
        let settings: Vec<String> = self.settings.iter().map(|setting| format!("`{}`", show(setting))).collect();
        format!("{} ({})", self.text, settings.join(", "))
    }
}

impl Display for Advice {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown(Setting::to_string))
    }
}
