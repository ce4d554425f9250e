package podexecapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// A tar whose caller has gone is killed: the runtime may let it go on.
func TestCopyEndsWithItsCaller(t *testing.T) {
	for name, tc := range map[string]struct {
		direction podexecv1.CopyStart_Direction
		holds     func(in runtime.ExecInput) bool
	}{
		"from":          {from, func(runtime.ExecInput) bool { return true }},
		"to":            {to, func(in runtime.ExecInput) bool { return !probes(in) }},
		"the directory": {to, probes},
	} {
		t.Run(name, func(t *testing.T) {
			began, killed := make(chan []string, 1), make(chan []string, 1)
			looks := 0
			s := New(Config{
				Board: boardOf(twoContainers()),
				Exec: command(func(ctx context.Context, in runtime.ExecInput) (int, error) {
					if !tc.holds(in) {
						return 2, nil
					}
					began <- in.Command
					<-ctx.Done()
					return 0, ctx.Err()
				}),
				Kill: func(container string, command []string) (int, error) {
					if looks++; looks < 3 {
						return 0, nil // The runtime is about to start it.
					}
					if container != "id-main" {
						t.Errorf("a command of %s is killed", container)
					}
					killed <- command
					return 1, nil
				},
			})
			s.killPatience = time.Hour
			ctx, cancel := context.WithCancel(t.Context())
			stream, err := remote(t, s, operator).Copy(ctx)
			if err == nil {
				err = stream.Send(startCopy(tc.direction, "/x"))
			}
			if err != nil {
				t.Fatal(err)
			}
			command := <-began
			cancel()
			if got := <-killed; !slices.Equal(got, command) {
				t.Errorf("%q is killed; want %q", got, command)
			}
		})
	}
}

// A tar that has ended isn't looked for, one whose end isn't known is, and the call has its error.
func TestCopyKills(t *testing.T) {
	for name, tc := range map[string]struct {
		err   error
		looks int
	}{"ended": {nil, 0}, "failed": {errors.New("the runtime has gone"), 1}} {
		looks := 0
		s := New(Config{
			Board: boardOf(twoContainers()),
			Exec:  command(func(context.Context, runtime.ExecInput) (int, error) { return 1, tc.err }),
			Kill: func(string, []string) (int, error) {
				looks++
				return 0, nil
			},
		})
		stream, err := remote(t, s, operator).Copy(t.Context())
		if err == nil {
			err = stream.Send(startCopy(from, "/x"))
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := copied(stream); status.Code(err) != codes.FailedPrecondition || looks != tc.looks {
			t.Errorf("%s: %v after %d looks; want %d", name, err, looks, tc.looks)
		}
	}
}

// Each command of a copy has a mark of its own, so that only the right one is killed. The mark changes no path, and fits
// into the longest one.
func TestCopiesAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		mark := tarMark()
		if seen[mark] || len(mark) > maxMark || strings.Trim(mark, "/.") != "" {
			t.Errorf("the mark %q", mark)
		}
		seen[mark] = true
		for _, dir := range []string{"/data", "/", "/data/.", "./x"} {
			if path.Clean(dir+mark) != path.Clean(dir) {
				t.Errorf("with a mark %s is %s", dir, path.Clean(dir+mark))
			}
		}
	}
	if longest := maxPath + len("./") + maxMark + len("\x00"); longest > 4096 {
		t.Errorf("a path can have %d bytes", longest)
	}
}

// markAtEnd is a tarMark at the end of a directory.
var markAtEnd = regexp.MustCompile(fmt.Sprintf(`(//?\.){%d}$`, markBits))

// unmarked returns a command of a copy without its mark.
func unmarked(t *testing.T, command []string) []string {
	t.Helper()
	out := slices.Clone(command)
	dir := slices.Index(out, "-C") + 1
	if !markAtEnd.MatchString(out[dir]) {
		t.Errorf("%q has no mark", command)
	}
	out[dir] = cmp.Or(markAtEnd.ReplaceAllString(out[dir], ""), "/") // The mark's first slash may be that of the root.
	return out
}

// A tar that prints without end where it should find nothing ends the call.
func TestCopyProbeIsBounded(t *testing.T) {
	_, _, err := copied(copying(t, func(ctx context.Context, in runtime.ExecInput) (int, error) {
		for ctx.Err() == nil {
			if _, err := in.Stdout.Write(make([]byte, 32<<10)); err != nil {
				return 0, err
			}
		}
		return 0, ctx.Err()
	}, startCopy(to, "/x")))
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "prints more than a tar does") {
		t.Error(err)
	}
}
