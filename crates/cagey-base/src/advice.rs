//! Messages to a user, and the settings that they are about.
//!
//! The library does not know how its user changes a setting: in code, or by an option of a command. Advice therefore
//! names settings separately from its text, as fields: `CagpOptions::actions`. A program that uses the library shows
//! them in its own way: the command shows its options.

use std::borrow::Cow;
use std::fmt::{Display, Formatter};

use serde::{Deserialize, Serialize};

/// A setting, and a value for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Setting {
    /// The type and its field: `TrainConfig::steps`.
    pub field: Cow<'static, str>,
    /// The value that helps, or several in words, if the text is about a value.
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

/// A text, and the settings that it is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Form", into = "Form")]
pub struct Advice {
    /// The message.
    pub text: String,
    /// The settings that it is about.
    pub settings: Vec<Setting>,
}

/// Advice in files: a text about no setting is stored alone, as older versions did.
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
    /// The same advice, about one more field.
    pub fn about(mut self, field: &'static str) -> Self {
        self.settings.push(Setting { field: field.into(), value: None });
        self
    }

    /// Whether it is about a field.
    pub fn is_about(&self, field: &str) -> bool {
        self.settings.iter().any(|setting| setting.field == field)
    }

    /// The same advice, about one more field and a value for it.
    pub fn set(mut self, field: &'static str, value: impl Display) -> Self {
        self.settings.push(Setting { field: field.into(), value: Some(value.to_string()) });
        self
    }

    /// The text, followed by its settings in brackets, each as `show` writes it.
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
