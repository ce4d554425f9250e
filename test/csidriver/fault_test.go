package csidriver

import (
	"bytes"
	"context"
	"os"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/podstream/podstream/test/csidriver/calllog"
	"github.com/podstream/podstream/test/csidriver/fault"
)

// stagedNow reports whether the volume is staged by the machine's account.
func (b *bench) stagedNow() bool {
	b.t.Helper()
	is, err := isMounted(b.path("staging"))
	must(b.t, err)
	return is
}

// TestFaults: each action leaves the volume, the answer and the log as it says.
func TestFaults(t *testing.T) {
	needMounts(t, Directory)
	for _, test := range []struct {
		fault fault.Fault
		code  codes.Code
		// acts reports whether the volume is staged; ends, whether the log has the call's end.
		acts, ends bool
	}{
		{fault.Fault{Action: fault.Delay, Delay: 50 * time.Millisecond}, codes.OK, true, true},
		{fault.Fault{Action: fault.Fail, Code: codes.Internal, Message: "as told"}, codes.Internal, false, true},
		{fault.Fault{Action: fault.ActFail, Code: codes.Internal}, codes.Internal, true, true},
		{fault.Fault{Action: fault.Die}, codes.Unavailable, false, false},
		{fault.Fault{Action: fault.ActDie}, codes.Unavailable, true, false},
		// gRPC refuses it, as clients have a limit of 4 MiB.
		{fault.Fault{Action: fault.Huge}, codes.ResourceExhausted, true, true},
	} {
		t.Run(string(test.fault.Action), func(t *testing.T) {
			b := newBench(t, nil)
			test.fault.Method, test.fault.Volume, test.fault.Times = "NodeStageVolume", "v", 1
			b.add(test.fault)
			begin := time.Now()
			wantCode(t, b.stage(files(writer)), test.code)
			if took := time.Since(begin); took < test.fault.Delay {
				t.Errorf("the call took %v; want at least %v", took, test.fault.Delay)
			}
			if !test.ends {
				<-b.Done()
			}
			if b.stagedNow() != test.acts {
				t.Errorf("the volume is staged: %v; want %v", !test.acts, test.acts)
			}
			staged := b.readLog().Of("NodeStageVolume")
			if len(staged) != 1 || staged[0].Ended != test.ends || test.ends && (staged[0].Fault != string(test.fault.Action)) {
				t.Fatalf("the log has %+v", staged)
			}
			b.restart()
			must(t, b.stage(files(writer)))
			must(t, b.unstage())
			b.clean()
		})
	}
}

// TestHold: a held call acts after its release, though its caller has gone, and the log says that it has gone. The same call again
// doesn't overlap it.
func TestHold(t *testing.T) {
	needMounts(t, Directory)
	b := newBench(t, nil)
	id := b.add(fault.Fault{Method: "NodeStageVolume", Action: fault.Hold, Times: 1, Busy: true})
	ctx, cancel := context.WithCancel(t.Context())
	request := &csipb.NodeStageVolumeRequest{VolumeId: "v", StagingTargetPath: b.path("staging"), VolumeCapability: files(writer)}
	result := make(chan error, 1)
	go func() {
		_, err := b.NodeStageVolume(ctx, request)
		result <- err
	}()
	b.await(id, 1)
	cancel()
	wantCode(t, <-result, codes.Canceled)
	_, err := b.NodeStageVolume(b.ctx(), request)
	wantCode(t, err, codes.Aborted) // an operation is pending
	if b.stagedNow() {
		t.Error("the held call has acted")
	}
	must(t, b.Faults.Release(b.ctx(), id))
	b.awaitStaged(request)
	must(t, b.unstage())
	b.clean()
	if held := b.readLog().Of("NodeStageVolume")[0]; !held.CallerGone || held.Code != codes.OK {
		t.Errorf("the log has %v", held)
	}
}

// awaitStaged repeats the call, as an agent does, until the driver isn't busy.
func (b *bench) awaitStaged(r *csipb.NodeStageVolumeRequest) {
	b.t.Helper()
	for ctx := b.ctx(); ; {
		_, err := b.NodeStageVolume(ctx, r)
		if err == nil {
			return
		}
		wantCode(b.t, err, codes.Aborted)
		if b.t.Failed() {
			b.t.FailNow()
		}
	}
}

// TestHang: each call hangs for ever, without acting, and ends with the driver.
func TestHang(t *testing.T) {
	needMounts(t, Directory)
	b := newBench(t, nil)
	id := b.add(fault.Fault{Action: fault.Hang})
	result := make(chan error, 2)
	go func() { result <- b.stage(files(writer)) }()
	go func() {
		_, err := b.NodeGetInfo(b.ctx(), &csipb.NodeGetInfoRequest{})
		result <- err
	}()
	b.await(id, 2)
	b.Kill()
	wantCode(t, <-result, codes.Unavailable)
	wantCode(t, <-result, codes.Unavailable)
	if b.stagedNow() {
		t.Error("the call has acted")
	}
	b.restart()
	for _, c := range b.readLog().Calls {
		if c.Ended || !c.Cut {
			t.Errorf("the log has %v", c)
		}
	}
}

// TestOverlapIsLogged: two callers at once are found, on one connection and on two. A caller that has died, and repeats the call on a
// new connection, isn't.
func TestOverlapIsLogged(t *testing.T) {
	needMounts(t, Directory)
	for name, test := range map[string]struct {
		// dial makes a new connection for the second call; die closes the first one before it.
		dial, die bool
		want      int
	}{
		"one connection": {want: 1}, "two connections": {dial: true, want: 1}, "a caller that has died": {dial: true, die: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			if !test.die {
				b.patience = time.Millisecond
			} else {
				b.patience = patience
			}
			id := b.add(fault.Fault{Method: "NodeStageVolume", Action: fault.Hold, Times: 1, Busy: true})
			result := make(chan error, 1)
			go func() { result <- b.stage(files(writer)) }()
			b.await(id, 1)
			first := b.conn
			if test.dial {
				b.dial()
			}
			if test.die {
				first.Close()
			}
			wantCode(t, b.stage(files(writer)), codes.Aborted)
			must(t, b.Faults.Release(b.ctx(), id))
			<-result
			first.Close()
			if got := calllog.Overlaps(b.readLog().Calls); len(got) != test.want {
				t.Errorf("Overlaps finds %q; want %d", got, test.want)
			}
		})
	}
}

// TestLogHasNoSecrets: the log has all arguments, but no values of secrets and tokens.
func TestLogHasNoSecrets(t *testing.T) {
	needMounts(t, Directory)
	b := newBench(t, nil)
	must(t, b.stage(files(writer)))
	must(t, b.unstage())
	data, err := os.ReadFile(b.Options().Log)
	must(t, err)
	if bytes.Contains(data, []byte("geheim")) {
		t.Errorf("the log has a secret:\n%s", data)
	}
	for _, want := range []string{"password", "visible", `"staging":"` + b.path("staging"), "SINGLE_NODE_WRITER", tokens} {
		if !bytes.Contains(data, []byte(want)) {
			t.Errorf("the log lacks %s:\n%s", want, data)
		}
	}
}
