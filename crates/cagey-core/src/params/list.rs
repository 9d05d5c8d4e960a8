//! The list of a type's parameters, written once.

/// Implements [`Parameters`](crate::params::Parameters) from one list of fields, in its order. A field is a parameter
/// with a name (`"noise": noise`), a part whose parameters are listed as they are (`..prior`), or a part with a prefix
/// (`"kernel": ..kernel`).
///
/// ```
/// use cagey::kernels::Kernel;
/// use cagey::params::{Parameter, Parameters, Unit};
///
/// struct Model {
///     kernel: Kernel,
///     noise: Parameter,
/// }
/// cagey::parameters!(Model { "kernel": ..kernel, "noise": noise });
///
/// let kernel = Kernel::parse("rbf", 1)?;
/// let model = Model { kernel, noise: Parameter::positive("noise", Unit::None, &[0.1]) };
/// assert_eq!(model.parameters().last().unwrap().0, "noise");
/// # Ok::<(), cagey::Error>(())
/// ```
#[macro_export]
macro_rules! parameters {
    ($type:ty { $($list:tt)* }) => {
        impl $crate::params::Parameters for $type {
            fn parameters(&self) -> Vec<(String, &$crate::params::Parameter)> {
                #[allow(unused_mut)]
                let mut all = Vec::new();
                $crate::parameters!(@all parameters [&] self $($list)*);
                all
            }

            fn parameters_mut(&mut self) -> Vec<(String, &mut $crate::params::Parameter)> {
                #[allow(unused_mut)]
                let mut all = Vec::new();
                $crate::parameters!(@all parameters_mut [&mut] self $($list)*);
                all
            }
        }
    };
    (@$all:ident $list:ident [$($borrow:tt)+] $self:ident) => {};
    (@$all:ident $list:ident [$($borrow:tt)+] $self:ident .. $($field:ident).+ $(, $($rest:tt)*)?) => {
        $all.extend($crate::params::Parameters::$list($($borrow)+ $self.$($field).+));
        $crate::parameters!(@$all $list [$($borrow)+] $self $($($rest)*)?);
    };
    (@$all:ident $list:ident [$($borrow:tt)+] $self:ident $name:literal : .. $($field:ident).+ $(, $($rest:tt)*)?) => {
        $all.extend($crate::params::prefixed($name, $self.$($field).+.$list()));
        $crate::parameters!(@$all $list [$($borrow)+] $self $($($rest)*)?);
    };
    (@$all:ident $list:ident [$($borrow:tt)+] $self:ident $name:literal : $($field:ident).+ $(, $($rest:tt)*)?) => {
        $all.extend([($name.into(), $($borrow)+ $self.$($field).+)]);
        $crate::parameters!(@$all $list [$($borrow)+] $self $($($rest)*)?);
    };
}
