package inject

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"
)

// MaxLine is the maximum length of a request, in bytes, without its newline.
const MaxLine = 64 << 20

// Set is everything that one source has, never a difference. See manifest.Set.
type Set struct {
	// Source is one of the names in Config.Sources.
	Source string `json:"source"`
	// Error is why the whole source can't be read now; there are then no Origins. Empty means that it was read.
	Error string `json:"error,omitempty"`
	// Origins are in order of precedence; their names are unique.
	Origins []Origin `json:"origins,omitempty"`
}

// Origin is a file, a URL's item or an API object.
type Origin struct {
	Name string `json:"name"`
	// Held is set if the origin, or a part of it, can't be used now: it keeps the pods that it had before.
	Held bool `json:"held,omitempty"`
	// Pods have at least a name, a namespace and a UID.
	Pods []*v1.Pod `json:"pods,omitempty"`
}

// Published is podconfigd's position.
type Published struct {
	Instance string `json:"instance"`
	// Revision is the last revision that was published; zero if there was none.
	Revision uint64 `json:"revision"`
}

// request is a Set whose origins are not decoded, or the sources to configure.
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

// failure is the answer to an invalid request.
type failure struct {
	Error string `json:"error"`
}

// decode is strict, so that a misspelled field doesn't become an empty set.
func decode(data []byte, into any) error {
	strict, err := kjson.UnmarshalStrict(data, into)
	return errors.Join(append(strict, err)...)
}

var errTooLong = fmt.Errorf("the line has more than %d bytes", MaxLine)

// readLine returns the next line with its newline. A line that is too long is read to its end, so that the next
// line can be read.
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
