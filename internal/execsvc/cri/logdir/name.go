package logdir

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// stampFormat is the kubelet's format of the time in a rotated log's name.
const stampFormat = "20060102-150405"

// The suffixes of names.
const (
	compressedSuffix = ".gz"
	temporarySuffix  = ".tmp"
)

// Kind is what a rotated log's file has.
type Kind int

// The kinds. A log is Plain first, and Temporary while it is compressed.
const (
	Plain Kind = iota
	Compressed
	Temporary
)

// Rotated is a rotated log, by its file's name.
type Rotated struct {
	Name string
	Kind Kind
	// stamp is the time in the name, and number distinguishes rotations of one second.
	stamp  string
	number int
}

// Compressed returns the file's name once it is compressed, and Temporary the one until then.
func (r Rotated) Compressed() string { return r.Name + compressedSuffix }

// Temporary returns the name of the file while it is compressed.
func (r Rotated) Temporary() string { return r.Name + temporarySuffix }

// Same reports whether both are the same part of the log, whatever their kinds are.
func (r Rotated) Same(other Rotated) bool { return r.stamp == other.stamp && r.number == other.number }

// After reports whether r is a later part of the log.
func (r Rotated) After(other Rotated) bool {
	return cmp.Or(strings.Compare(r.stamp, other.stamp), cmp.Compare(r.number, other.number)) > 0
}

// compare is the order of the parts, and of the kinds of one part.
func compare(a, b Rotated) int {
	return cmp.Or(strings.Compare(a.stamp, b.stamp), cmp.Compare(a.number, b.number), cmp.Compare(a.Kind, b.Kind))
}

// Newest returns the newest of the rotated logs, which are sorted. Temporary ones don't count. Nil: there is none.
func Newest(rotated []Rotated) *Rotated {
	for i := len(rotated) - 1; i >= 0; i-- {
		if rotated[i].Kind != Temporary {
			return &rotated[i]
		}
	}
	return nil
}

// Parse returns the rotated log of that name. ok is false if name isn't that of a rotated log of the log called log.
func Parse(log, name string) (r Rotated, ok bool) {
	r.Name = name
	rest, ok := strings.CutPrefix(name, log+".")
	if !ok {
		return Rotated{}, false
	}
	if plain, found := strings.CutSuffix(rest, compressedSuffix); found {
		rest, r.Kind = plain, Compressed
	} else if plain, found := strings.CutSuffix(rest, temporarySuffix); found {
		rest, r.Kind = plain, Temporary
	}
	if len(rest) < len(stampFormat) {
		return Rotated{}, false
	}
	r.stamp = rest[:len(stampFormat)]
	if _, err := time.Parse(stampFormat, r.stamp); err != nil {
		return Rotated{}, false
	}
	if digits := rest[len(stampFormat):]; digits != "" {
		number, err := strconv.Atoi(strings.TrimPrefix(digits, "-"))
		if err != nil || number <= 0 || digits != fmt.Sprintf("-%03d", number) {
			return Rotated{}, false
		}
		r.number = number
	}
	return r, true
}

// Next returns the name for a log that is rotated now. newest is the newest rotated log, or nil. The name is after it
// also if the clock was set back.
func Next(log string, now time.Time, newest *Rotated) string {
	stamp := now.Format(stampFormat)
	if newest == nil || stamp > newest.stamp {
		return log + "." + stamp
	}
	return fmt.Sprintf("%s.%s-%03d", log, newest.stamp, newest.number+1)
}
