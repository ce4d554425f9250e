package inject

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"
)

// MaxLine is how long a request may be, in bytes, without its newline.
const MaxLine = 64 << 20

// Set is everything that one source has: always all of it, never a difference. See manifest.Set.
type Set struct {
	// Source is one of the names that the Source was made with.
	Source string `json:"source"`
	// Error is why the whole source can't be read now; there are no Origins then. Empty: it was read.
	Error string `json:"error,omitempty"`
	// Origins are in order of precedence; their names are unique.
	Origins []Origin `json:"origins,omitempty"`
}

// Origin is a file, a URL's item or an API object.
type Origin struct {
	Name string `json:"name"`
	// Held is set if some of the origin, or all, can't be used now: what it had before is kept.
	Held bool `json:"held,omitempty"`
	// Pods have a name, a namespace and a UID at least.
	Pods []*v1.Pod `json:"pods,omitempty"`
}

// Published is how far podconfigd is.
type Published struct {
	Instance string `json:"instance"`
	// Revision is the last one that was published; zero if there was none.
	Revision uint64 `json:"revision"`
}

// request is a Set whose origins are as they came, or the sources to configure.
type request struct {
	Source  string            `json:"source"`
	Error   string            `json:"error"`
	Origins []json.RawMessage `json:"origins"`
	// Configure is nil in a Set.
	Configure []string `json:"configure"`
}

// configuration is the request of Client.Configure.
type configuration struct {
	Configure []string `json:"configure"`
}

// failure is the answer to a request that can't be understood.
type failure struct {
	Error string `json:"error"`
}

// decode is strict, so that a mistyped member isn't taken for an empty set.
func decode(data []byte, into any) error {
	strict, err := kjson.UnmarshalStrict(data, into)
	return errors.Join(append(strict, err)...)
}

var errTooLong = fmt.Errorf("the line has more than %d bytes", MaxLine)

// readLine returns the next line with its newline. One that is too long is read to its end, so that the next can
// follow.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	tooLong := false
	for {
		part, err := r.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		if tooLong = tooLong || len(line)+len(part) > MaxLine+1; tooLong {
			line = nil
		} else {
			line = append(line, part...)
		}
		switch {
		case err != nil:
		case tooLong:
			return nil, errTooLong
		default:
			return line, nil
		}
	}
}
