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
	logSuffix        = ".log"
)

// maxNumber is the highest number in a name, both of a container's attempt and of a rotation within a second. A file with
// a higher one isn't a log: a pod has made it.
const maxNumber = 999_999

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

// Last reports whether no name is after this one. Next would need more rotations than there ever are to return it, so a
// pod has made the file.
func (r Rotated) Last() bool { return r.number == maxNumber && r.nextStamp() == "" }

// nextStamp returns the stamp of the next second; empty: there is none.
func (r Rotated) nextStamp() string {
	at, err := time.Parse(stampFormat, r.stamp)
	if err != nil || at.Add(time.Second).Year() > 9999 {
		return ""
	}
	return at.Add(time.Second).Format(stampFormat)
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
		if err != nil || number <= 0 || number > maxNumber || digits != fmt.Sprintf("-%03d", number) {
			return Rotated{}, false
		}
		r.number = number
	}
	return r, true
}

// Attempt returns the container's attempt of a log or rotated log of that name. ok is false if name is another one.
func Attempt(name string) (attempt uint32, ok bool) {
	number, _, _ := strings.Cut(name, logSuffix)
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil || n > maxNumber || strconv.FormatUint(n, 10) != number {
		return 0, false
	}
	if name != number+logSuffix {
		_, ok = Parse(number+logSuffix, name)
		return uint32(n), ok
	}
	return uint32(n), true
}

// Next returns the name for a log that is rotated now. newest is the newest rotated log, which isn't the Last one, or nil.
// The name is after it also if the clock was set back.
func Next(log string, now time.Time, newest *Rotated) string {
	stamp := now.Format(stampFormat)
	if newest != nil && stamp <= newest.stamp && newest.number == maxNumber {
		stamp = newest.nextStamp()
	}
	if newest == nil || stamp > newest.stamp {
		return log + "." + stamp
	}
	return fmt.Sprintf("%s.%s-%03d", log, newest.stamp, newest.number+1)
}
