package podexecapi

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

type copyClient = grpc.BidiStreamingClient[podexecv1.CopyRequest, podexecv1.CopyResponse]

const (
	from = podexecv1.CopyStart_DIRECTION_FROM_CONTAINER
	to   = podexecv1.CopyStart_DIRECTION_TO_CONTAINER
)

func startCopy(direction podexecv1.CopyStart_Direction, path string) *podexecv1.CopyRequest {
	return &podexecv1.CopyRequest{Message: &podexecv1.CopyRequest_Start{Start: &podexecv1.CopyStart{
		Ref: &podconfigv1.PodRef{Name: "two"}, Container: "main", Direction: direction, Path: path,
	}}}
}

func copyData(text string) *podexecv1.CopyRequest {
	return &podexecv1.CopyRequest{Message: &podexecv1.CopyRequest_Data{Data: []byte(text)}}
}

var copyClosed = &podexecv1.CopyRequest{Message: &podexecv1.CopyRequest_DataClosed{DataClosed: true}}

// probes reports whether a command only finds out whether a path is a directory.
func probes(in runtime.ExecInput) bool {
	return strings.HasPrefix(in.Command[len(in.Command)-1], "./.podstream-")
}

// copying begins a call, and sends these messages.
func copying(t *testing.T, c command, messages ...*podexecv1.CopyRequest) copyClient {
	t.Helper()
	stream, err := remote(t, New(Config{Board: boardOf(twoContainers()), Exec: c}), operator).Copy(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if err := stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	return stream
}

// copied reads a call to its end: the name, and the archive.
func copied(stream copyClient) (opened *podexecv1.CopyOpened, data string, err error) {
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return opened, data, nil
		}
		if err != nil {
			return opened, data, err
		}
		if o := m.GetOpened(); o != nil {
			opened = o
		}
		data += string(m.GetData())
	}
}

// No path is an option of tar, or the name of another archive, whatever it is.
func TestCopyFrom(t *testing.T) {
	long := strings.Repeat("x", 3*maxPiece/2)
	for asks, want := range map[string]struct{ dir, member, name string }{
		"/data/app.db":  {"/data", "./app.db", "app.db"},
		"/data/":        {"/data", ".", "."},
		"/data":         {"/", "./data", "data"},
		"/":             {"/", ".", "."},
		"app.db":        {"./.", "./app.db", "app.db"},
		"-C":            {"./.", "./-C", "-C"},
		"--help":        {"./.", "./--help", "--help"},
		"-a/-b":         {"./-a", "./-b", "-b"},
		"@other.tar":    {"./.", "./@other.tar", "@other.tar"},
		"..":            {"./..", ".", "."},
		"../-x":         {"./..", "./-x", "-x"},
		".":             {"./.", ".", "."},
		"/a/../-b/":     {"/-b", ".", "."},
		"/etc/a b\nc":   {"/etc", "./a b\nc", "a b\nc"},
		"--to-command=": {"./.", "./--to-command=", "--to-command="},
	} {
		var asked runtime.ExecInput
		stream := copying(t, func(_ context.Context, in runtime.ExecInput) (int, error) {
			asked = in
			_, err := io.WriteString(in.Stdout, long)
			return 0, err
		}, startCopy(from, asks))
		opened, data, err := copied(stream)
		if err != nil || data != long || opened.GetName() != want.name || asked.ContainerID != "id-main" || asked.Stdin != nil || asked.TTY {
			t.Errorf("%q: %v, %d bytes, opened %v, asked for %+v", asks, err, len(data), opened, asked)
		}
		if command := []string{"tar", "-c", "-f", "-", "-C", want.dir, want.member}; !slices.Equal(unmarked(t, asked.Command), command) {
			t.Errorf("%q runs %q; want %q", asks, asked.Command, command)
		}
	}
}

// An archive is extracted in the path if that is a directory, and otherwise beside it, under its last name.
func TestCopyTo(t *testing.T) {
	for path, want := range map[string]struct {
		isDir     bool
		dir, name string
	}{
		"/data":    {true, "/data", ""},
		"/data/x":  {false, "/data", "x"},
		"-x":       {false, "./.", "-x"},
		"-C/--a":   {false, "./-C", "--a"},
		"--rsh=sh": {true, "./--rsh=sh", ""},
	} {
		var commands [][]string
		stream := copying(t, func(_ context.Context, in runtime.ExecInput) (int, error) {
			commands = append(commands, in.Command)
			if probes(in) {
				if want.isDir {
					_, _ = in.Stdout.Write(make([]byte, 1024))
				}
				return 2, nil
			}
			text, err := io.ReadAll(in.Stdin)
			_, _ = io.WriteString(in.Stdout, "ignored")
			if string(text) != "one two" {
				t.Errorf("%q: the archive is %q", path, text)
			}
			return 0, err
		}, startCopy(to, path), copyData("one "), copyData("two"), copyClosed)
		opened, _, err := copied(stream)
		if err != nil || opened == nil || opened.GetName() != want.name {
			t.Errorf("%q: opened %v, %v; want the name %q", path, opened, err, want.name)
		}
		if len(commands) != 2 {
			t.Fatalf("%q runs %q", path, commands)
		}
		if command := []string{"tar", "-c", "-f", "-", "-C", rooted(path)}; !slices.Equal(unmarked(t, commands[0])[:6], command) || len(commands[0]) != 7 {
			t.Errorf("%q runs %q; want %q first", path, commands, command)
		}
		if command := []string{"tar", "-x", "-m", "-f", "-", "-C", want.dir}; !slices.Equal(unmarked(t, commands[1]), command) {
			t.Errorf("%q runs %q; want %q last", path, commands, command)
		}
	}
}

// A container without tar, and a tar that fails, give errors that say so.
func TestCopyFails(t *testing.T) {
	missing := errors.New(`failed to exec in container: exec failed: unable to start container process: exec: "tar": executable file not found in $PATH`)
	says := func(text string, code int, err error) command {
		return func(_ context.Context, in runtime.ExecInput) (int, error) {
			_, _ = io.WriteString(in.Stderr, text)
			return code, err
		}
	}
	for name, tc := range map[string]struct {
		tar  command
		want string
	}{
		"no tar":             {says("", 0, missing), "container main of pod default/two has no tar"},
		"crun":               {says("", 0, errors.New("crun: executable file `tar` not found in $PATH: No such file or directory")), "has no tar"},
		"exit code 127":      {says("", 127, nil), "has no tar that can be run"},
		"another error":      {says("", 0, errors.New("no streams")), "run tar in container main of pod default/two: no streams"},
		"no such file":       {says(strings.Repeat("noise ", 10_000)+"tar: ./x: Cannot stat\n", 2, nil), "failed with exit code 2: "},
		"text that is wrong": {says("tar: \xff\n", 1, nil), "tar: \uFFFD"},
	} {
		for _, direction := range []podexecv1.CopyStart_Direction{from, to} {
			_, _, err := copied(copying(t, tc.tar, startCopy(direction, "/x")))
			text := status.Convert(err).Message()
			if status.Code(err) != codes.FailedPrecondition || !strings.Contains(text, tc.want) || len(text) > 2*maxSaid {
				t.Errorf("%s, %s: %v; want %q", name, direction, err, tc.want)
			}
			if name == "no such file" && !strings.HasSuffix(text, "tar: ./x: Cannot stat") {
				t.Errorf("%s, %s: %q doesn't end with tar's last words", name, direction, text)
			}
		}
	}
}

func TestCopyRefuses(t *testing.T) {
	waits := command(func(ctx context.Context, in runtime.ExecInput) (int, error) {
		if probes(in) {
			return 2, nil
		}
		if in.Stdin != nil {
			_, _ = io.Copy(io.Discard, in.Stdin)
			return 0, nil
		}
		<-ctx.Done()
		return 0, ctx.Err()
	})
	for name, tc := range map[string]struct {
		messages []*podexecv1.CopyRequest
		want     codes.Code
		text     string
	}{
		"no direction":       {[]*podexecv1.CopyRequest{startCopy(0, "/x")}, codes.InvalidArgument, "start.direction"},
		"a later direction":  {[]*podexecv1.CopyRequest{startCopy(9, "/x")}, codes.InvalidArgument, "start.direction"},
		"no path":            {[]*podexecv1.CopyRequest{startCopy(from, "")}, codes.InvalidArgument, "start.path"},
		"a long path":        {[]*podexecv1.CopyRequest{startCopy(from, strings.Repeat("x", maxPath+1))}, codes.InvalidArgument, "start.path"},
		"a path with a NUL":  {[]*podexecv1.CopyRequest{startCopy(to, "a\x00b")}, codes.InvalidArgument, "start.path"},
		"no start":           {[]*podexecv1.CopyRequest{copyData("x")}, codes.InvalidArgument, "start"},
		"started twice":      {[]*podexecv1.CopyRequest{startCopy(to, "/x"), startCopy(to, "/x")}, codes.InvalidArgument, "start"},
		"data from a caller": {[]*podexecv1.CopyRequest{startCopy(from, "/x"), copyData("x")}, codes.InvalidArgument, "data"},
		"a long piece":       {[]*podexecv1.CopyRequest{startCopy(to, "/x"), copyData(strings.Repeat("x", maxPiece+1))}, codes.InvalidArgument, "65536"},
		"no end":             {[]*podexecv1.CopyRequest{startCopy(to, "/x"), copyData("x"), nil}, codes.InvalidArgument, "data_closed"},
	} {
		t.Run(name, func(t *testing.T) {
			messages := tc.messages
			if messages[len(messages)-1] == nil {
				messages = messages[:len(messages)-1]
			}
			stream := copying(t, waits, messages...)
			if len(messages) < len(tc.messages) {
				_ = stream.CloseSend()
			}
			if _, _, err := copied(stream); status.Code(err) != tc.want || !strings.Contains(status.Convert(err).Message(), tc.text) {
				t.Errorf("%v; want %s with %q", err, tc.want, tc.text)
			}
		})
	}
}
