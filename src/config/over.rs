//! Settings over others: what flags leave open, the configuration file says.

/// A setting's value, which may leave open what it is.
pub(super) trait Over {
    /// Keeps this value, or where it leaves that open takes the `other`.
    #[must_use]
    fn over(self, other: Self) -> Self;
}

impl<T> Over for Option<T> {
    fn over(self, other: Self) -> Self {
        self.or(other)
    }
}

impl<T> Over for Vec<T> {
    fn over(self, other: Self) -> Self {
        if self.is_empty() { other } else { self }
    }
}

impl Over for bool {
    fn over(self, other: Self) -> Self {
        self || other
    }
}

/// Declares a struct of settings, which can be laid over others of its kind, field by field.
macro_rules! settings {
    (
        $(#[$attribute:meta])*
        pub struct $name:ident {
            $($(#[$of_field:meta])* pub $field:ident: $kind:ty,)*
        }
    ) => {
        $(#[$attribute])*
        pub struct $name {
            $($(#[$of_field])* pub $field: $kind,)*
        }

        impl $crate::config::over::Over for $name {
            fn over(self, other: Self) -> Self {
                Self {
                    $($field: $crate::config::over::Over::over(self.$field, other.$field),)*
                }
            }
        }
    };
}

pub(super) use settings;
