package survival

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// recorder records a History. It is safe for concurrent use.
type recorder struct {
	mu      sync.Mutex
	history History
	// ids are all sandboxes and containers that the runtime ever had, with the UIDs of their pods.
	ids map[string]string
}

func newRecorder() *recorder {
	return &recorder{history: History{Plans: map[string]Plan{}}, ids: map[string]string{}}
}

func (r *recorder) planned(p Plan) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Plans[p.UID] = p
}

func (r *recorder) did(kind Kind, uid, note string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Deeds = append(r.history.Deeds, Deed{At: time.Now(), Kind: kind, Pod: uid, Note: note})
}

// looked records a look. It may be older than the last one.
func (r *recorder) looked(look *Look) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := len(r.history.Looks)
	for at > 0 && r.history.Looks[at-1].At.After(look.At) {
		at--
	}
	r.history.Looks = append(r.history.Looks[:at], append([]Look{*look}, r.history.Looks[at:]...)...)
}

func (r *recorder) settled(look *Look) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Settled(&r.history, look)
}

// whole returns the history, with the diaries of all pods, which are below life.
func (r *recorder) whole(life string) (*History, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.history
	h.Runs = nil
	for uid, p := range h.Plans {
		for _, c := range p.Containers {
			text, err := os.ReadFile(filepath.Join(life, uid, c.Name))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			runs, err := ParseDiary(uid, c.Name, string(text))
			if err != nil {
				return nil, err
			}
			h.Runs = append(h.Runs, runs...)
		}
	}
	return &h, nil
}

// account returns the deeds, one on each line.
func (r *recorder) account() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	for _, d := range r.history.Deeds {
		fmt.Fprintf(&b, "%s %s %s %s\n", clock(d.At), d.Kind, d.Pod, d.Note)
	}
	return b.String()
}

// lookOut looks at the node at intervals until ctx ends. All looks are kept, so the interval grows with the
// number of pods.
func (s *site) lookOut(ctx context.Context) {
	const pause, pauseAPod = 250 * time.Millisecond, 2 * time.Millisecond
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		next := pause
		// If the runtime is away, the next look comes later.
		if look, err := s.look(ctx, false); err == nil {
			s.looked(look)
			next = max(pause, time.Duration(len(look.Sandboxes))*pauseAPod)
		}
		timer.Reset(next)
	}
}

// follow records what podexecd's stream shows, until ctx ends. If podexecd is away, it connects again.
func (s *site) follow(ctx context.Context) {
	for ctx.Err() == nil {
		stream, err := s.exec.WatchPodStatus(ctx, &podexecv1.WatchPodStatusRequest{Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF})
		for err == nil {
			var message *podexecv1.WatchPodStatusResponse
			if message, err = stream.Recv(); err == nil && message.GetPod() != nil {
				s.showed(message.GetPod())
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (r *recorder) showed(p *podexecv1.ObservedPod) {
	status := &v1.PodStatus{}
	if err := status.Unmarshal(p.GetProtobuf()); err != nil {
		panic(err) // podexecd encoded it
	}
	shown := Status{At: time.Now(), UID: p.GetRef().GetUid()}
	for _, c := range status.Conditions {
		if c.Type == v1.PodReady {
			shown.Ready, shown.Since = c.Status == v1.ConditionTrue, c.LastTransitionTime.Time
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Statuses = append(r.history.Statuses, shown)
}
