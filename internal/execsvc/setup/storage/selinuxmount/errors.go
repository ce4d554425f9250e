package selinuxmount

import (
	"fmt"
	"strings"
)

// LabelError is the error of options that have no label.
type LabelError struct{ Err error }

func (e *LabelError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *LabelError) Unwrap() error { return e.Err }

// MultipleLabelsError is the error of containers with different labels that mount the same volume of their pod.
type MultipleLabelsError struct{ Labels []string }

func (e *MultipleLabelsError) Error() string {
	return fmt.Sprintf("multiple SELinux labels found: %s: the containers that mount a volume need the same seLinuxOptions, "+
		"or the pod seLinuxChangePolicy: Recursive", strings.Join(e.Labels, ","))
}
