//! The macro that writes the methods of options: one for each field that a caller may leave out.
//!
//! The structs are `#[non_exhaustive]`, so that a new option breaks no caller. A caller begins with `default()` or `new`
//! and calls the method with a field's name: `Options::default().pool_size(2)`.

/// Writes the methods that set the fields of a struct.
///
/// `Name { field: Type, field?: Inner, field, .. }`. The field after `?` is an `Option<Inner>`: its method accepts an
/// `Inner` and an `Option<Inner>`. A field without a type has no method, because `new` sets it. The build fails if a
/// field is missing here.
macro_rules! setters {
    ($name:ident $(<$life:lifetime>)? {
        $( $field:ident $(?: $inner:ty)? $(: $type:ty)? ),* $(,)?
    }) => {
        impl $(<$life>)? $name $(<$life>)? {
            $( setters!(@ $field [$($type)?] [$($inner)?]); )*
        }

        const _: fn(&$name) = |it| {
            let $name { $( $field: _ ),* } = it;
        };
    };
    (@ $field:ident [] []) => {};
    (@ $field:ident [$type:ty] []) => {
        #[doc = concat!("Sets [`", stringify!($field), "`](field@Self::", stringify!($field), ").")]
        #[must_use]
        pub fn $field(mut self, $field: $type) -> Self {
            self.$field = $field;
            self
        }
    };
    (@ $field:ident [] [$inner:ty]) => {
        #[doc = concat!("Sets [`", stringify!($field), "`](field@Self::", stringify!($field), ").")]
        #[must_use]
        pub fn $field(mut self, $field: impl Into<Option<$inner>>) -> Self {
            self.$field = $field.into();
            self
        }
    };
}
