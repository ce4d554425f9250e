package validate

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// required returns the error of an empty field.
func required(at *field.Path, value string) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	return nil
}

// invalid returns one error for each message. A message, like every detail of an error, must not quote the manifest:
// inspectors see it, without the value.
func invalid(at *field.Path, value any, messages []string) field.ErrorList {
	var errs field.ErrorList
	for _, m := range messages {
		errs = append(errs, field.Invalid(at, value, m))
	}
	return errs
}

// oneOf returns the error of a value that isn't among the valid ones.
func oneOf[T ~string](at *field.Path, value T, valid ...T) field.ErrorList {
	if slices.Contains(valid, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, value, valid)}
}

// inRange returns the error of a number out of its range. Nil is in every range.
func inRange[T int32 | int64](at *field.Path, value *T, least, most T) field.ErrorList {
	if value == nil || *value >= least && *value <= most {
		return nil
	}
	want := fmt.Sprintf("must be at least %d", least)
	if *value > most {
		want = fmt.Sprintf("must be at most %d", most)
	}
	return field.ErrorList{field.Invalid(at, *value, want)}
}

// sorted sorts errors that were found in the order of a map.
func sorted(errs field.ErrorList) field.ErrorList {
	slices.SortStableFunc(errs, func(a, b *field.Error) int { return cmp.Compare(a.Error(), b.Error()) })
	return errs
}
