//! Methods of settings that return them with another value.

/// A method for each of these fields, which returns the settings with another value of it. A field that may be absent
/// takes the value that it then has.
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    ($options:ident { $($field:ident: $value:ty),+ $(,)? }) => {
        impl $options {
            $(
                #[doc = concat!(
                    "The same with this [`", stringify!($field), "`](Self#structfield.", stringify!($field), ")."
                )]
                pub fn $field(mut self, $field: $value) -> Self {
                    self.$field = $field.into();
                    self
                }
            )+
        }
    };
}
