package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/loop/store"
)

// writerEnv makes a process of this test write to the store that it names, until it kills itself. killEnv is the time
// from its first write until then.
const (
	writerEnv = "PODSTREAM_TEST_WRITE_TO"
	killEnv   = "PODSTREAM_TEST_KILL_AFTER"
)

// scripted returns the event of a revision, which is the same in every process. Each adds a pod, updates one and
// removes one.
func scripted(revision uint64) client.Event {
	uid := func(r uint64) string { return strconv.FormatUint(r%12, 10) }
	e := event(revision)
	if revision > 6 {
		e.Ops = append(e.Ops, change(client.Remove, reference(newPod(uid(revision-6), "file", 0))))
	}
	e.Ops = append(e.Ops, change(client.Add, newPod(uid(revision), "file", int(revision))))
	if revision > 3 {
		e.Ops = append(e.Ops, change(client.Update, newPod(uid(revision-3), "file", int(revision))))
	}
	return e
}

// at returns the state after the scripted revisions up to that one, without statuses, ends and allocations.
func at(revision uint64) store.State {
	pods := map[types.UID]client.Pod{}
	for r := uint64(1); r <= revision; r++ {
		for _, c := range scripted(r).Ops {
			if c.Op == client.Remove {
				delete(pods, c.Pods[0].UID)
				continue
			}
			pods[c.Pods[0].UID] = c.Pods[0]
		}
	}
	var s store.State
	for _, pod := range pods {
		s.Pods = append(s.Pods, pod)
	}
	if revision > 0 {
		s.Cursor = cursor(revision)
	}
	return s
}

// writeForever applies the scripted events. At each third one it stores an end, and prints the revision when that is
// on disk.
func writeForever(path string) int {
	st, state, err := store.Open(store.Config{Path: path})
	after, parseErr := time.ParseDuration(os.Getenv(killEnv))
	if err = errors.Join(err, parseErr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go st.Run(context.Background())
	var once sync.Once
	for revision := state.Cursor.GetRevision() + 1; ; revision++ {
		st.Apply(scripted(revision))
		st.SetStatus("s", podStatus(v1.PodRunning, strconv.FormatUint(revision, 10)), time.UnixMilli(int64(revision)))
		allocated := allocation(int64(revision))
		st.SetAllocation("s", &allocated)
		if revision%3 != 0 {
			continue
		}
		if err := st.SetEnd(context.Background(), "e", store.End{Grace: int64(revision)}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Println(revision)
		once.Do(func() {
			time.AfterFunc(after, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) })
		})
	}
}

// TestKill kills a process during its writes, repeatedly with one store: the pods are those of the cursor, and every
// change that was reported as written is there.
func TestKill(t *testing.T) {
	s := newSetting(t)
	random := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		acknowledged := killWriter(t, s.cfg.Path, time.Duration(random.IntN(8000))*time.Microsecond)
		state := s.state(t)
		got := state.Cursor.GetRevision()
		want := at(got)
		want.Statuses, want.Ends, want.Allocations = state.Statuses, state.Ends, state.Allocations
		if diff := diff(want, state); diff != "" {
			t.Fatalf("the store at revision %d (-want +got):\n%s", got, diff)
		}
		if grace := state.Ends["e"].Grace; got < acknowledged || grace < int64(acknowledged) || grace > int64(got) {
			t.Fatalf("the store is at revision %d, with the end of %d; want both at %d or later", got, grace, acknowledged)
		}
		if changed := state.Statuses["s"].Changed.UnixMilli(); changed > int64(got) || changed < int64(got)-1 {
			t.Fatalf("the status is that of revision %d, and the pods are those of %d", changed, got)
		}
		// It is set after the status: it is never ahead of it, and at most one write behind.
		if of, status := state.Allocations["s"].Generation, state.Statuses["s"].Changed.UnixMilli(); of > status || of < status-1 {
			t.Fatalf("the allocation is that of revision %d, and the status that of %d", of, status)
		}
	}
	if strings.Contains(s.log.String(), "aside") {
		t.Errorf("a store was set aside:\n%s", s.log)
	}
}

// killWriter runs a writer until it is killed, and returns the last revision that it printed.
func killWriter(t *testing.T, path string, after time.Duration) (last uint64) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), writerEnv+"="+path, killEnv+"="+after.String())
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the writer ended by itself: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		if last, err = strconv.ParseUint(strings.TrimSpace(line), 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	return last
}
