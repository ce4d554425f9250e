package manifest

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// problem is an error in a manifest, in two wordings: Error may quote the manifest, unquoted doesn't.
type problem struct {
	error
	unquoted string
}

// word is text of a message that is this package's own, and not the manifest's.
type word string

// problemf formats both wordings. The unquoted one hides every argument that may be text of the manifest: all but
// ints, which are counts and lines, words, and the unquoted wording of other problems. The numbers of a manifest are
// int64 and float64.
func problemf(format string, args ...any) *problem {
	unquoted := make([]any, len(args))
	for i, arg := range args {
		unquoted[i] = unquote(arg)
	}
	return &problem{error: fmt.Errorf(format, args...), unquoted: fmt.Sprintf(format, unquoted...)}
}

func unquote(arg any) any {
	switch arg := arg.(type) {
	case int, word:
		return arg
	case *problem:
		return arg.unquoted
	default:
		return hidden{}
	}
}

// asProblem returns err as a problem. An error from elsewhere may quote anything.
func asProblem(err error) *problem {
	var p *problem
	if errors.As(err, &p) {
		return p
	}
	return problemf("can't be used: %v", err)
}

// refusal returns the problem of a validation error. Only the value is left out: the details are rules, and quote no
// value.
func refusal(err *field.Error) *problem {
	p := &problem{error: errors.New(err.ErrorBody()), unquoted: err.Type.String()}
	if err.Detail != "" {
		p.unquoted += ": " + err.Detail
	}
	return p
}

// hidden is an argument that isn't shown, whatever the verb.
type hidden struct{}

// Format is part of fmt.Formatter.
func (hidden) Format(f fmt.State, _ rune) {
	// If the State can't be written, nothing is shown, as intended.
	_, _ = f.Write([]byte("(redacted)"))
}
