package migration

import "strings"

// maxText bounds a note and an error, in bytes: they may have text of the runtime, of the API server, and of files.
const maxText = 2 << 10

// cut returns the beginning of a text that is too long.
func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "..."
}

// short returns the error with a text that isn't too long.
func short(err error) error {
	if err == nil || len(err.Error()) <= maxText {
		return err
	}
	return shortError{err}
}

type shortError struct{ error }

func (e shortError) Error() string { return cut(e.error.Error()) }

// Unwrap returns the whole error.
func (e shortError) Unwrap() error { return e.error }
