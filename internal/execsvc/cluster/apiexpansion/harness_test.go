package apiexpansion

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/rest"

	"github.com/podstream/podstream/internal/execsvc/cluster/apiclient"
	"github.com/podstream/podstream/internal/execsvc/cluster/apivolumes"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is an API server with one claim, a driver, and an Expander between them.
type world struct {
	*Expander
	t *testing.T

	mu    sync.Mutex
	claim *v1.PersistentVolumeClaim
	pv    *v1.PersistentVolume
	// away has the API server fail.
	away bool
	// driver is what a call answers. It may block.
	driver func(ctx context.Context) error
	// calls are the expansions, in bytes, and events all events.
	calls  []int64
	events []string
	reads  int
}

func inWorld(t *testing.T, test func(t *testing.T, w *world), change ...func(*v1.PersistentVolumeClaim)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		w.claim, w.pv = claimOf(change...)
		client, err := apiclient.New(&rest.Config{
			Host: "http://api", QPS: -1, Transport: w,
			ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"},
		})
		if err != nil {
			t.Fatal(err)
		}
		w.Expander = New(Config{
			Client: client, Claims: w, Node: "n1", Expand: w.expandVolume,
			PodEvent: func(pod *v1.Pod, eventType, reason, message string) {
				w.set(func() { w.events = append(w.events, pod.Name+" "+eventType+" "+reason+" "+message) })
			},
			ClaimEvent: func(claim *v1.PersistentVolumeClaim, eventType, reason, message string) {
				w.set(func() { w.events = append(w.events, claim.Name+" "+eventType+" "+reason+" "+message) })
			},
		})
		defer w.Close()
		test(t, w)
	})
}

func (w *world) set(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

// Latest is part of Claims.
func (w *world) Latest(*v1.Pod, *v1.Volume) (apivolumes.Claimed, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return apivolumes.Claimed{Claim: w.claim, Volume: w.pv}, true
}

// Read is part of Claims.
func (w *world) Read(context.Context, *v1.Pod, *v1.Volume) (apivolumes.Claimed, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads++
	if w.away {
		return apivolumes.Claimed{}, errors.New("connection refused")
	}
	return apivolumes.Claimed{Claim: w.claim, Volume: w.pv}, nil
}

// Update is part of Claims.
func (w *world) Update(claim *v1.PersistentVolumeClaim) {
	w.set(func() {
		if claim.ResourceVersion != w.claim.ResourceVersion {
			w.t.Errorf("version %s of the claim is taken; want %s", claim.ResourceVersion, w.claim.ResourceVersion)
		}
	})
}

// expandVolume is Config.Expand.
func (w *world) expandVolume(ctx context.Context, uid types.UID, volume string, size int64) error {
	w.mu.Lock()
	w.calls = append(w.calls, size)
	driver := w.driver
	w.mu.Unlock()
	if volume != "data" {
		w.t.Errorf("the volume %s of %s is expanded", volume, uid)
	}
	if driver == nil {
		return nil
	}
	return driver(ctx)
}

// RoundTrip is part of http.RoundTripper. It is the API server's patch of a claim's status.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if w.away {
		return nil, errors.New("connection refused")
	}
	if r.Method != http.MethodPatch || r.URL.Path != "/api/v1/namespaces/default/persistentvolumeclaims/data/status" {
		w.t.Errorf("the request %s %s", r.Method, r.URL.Path)
	}
	var change v1.PersistentVolumeClaim
	if err := json.Unmarshal(data, &change); err != nil {
		return nil, err
	}
	var answer any
	code := http.StatusOK
	if version := change.ResourceVersion; version != "" && version != w.claim.ResourceVersion || change.UID != w.claim.UID {
		code, answer = http.StatusConflict, &metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonConflict,
			Code: http.StatusConflict, Message: "the object has been modified",
		}
	} else {
		before, err := json.Marshal(w.claim)
		if err != nil {
			return nil, err
		}
		after, err := strategicpatch.StrategicMergePatch(before, data, v1.PersistentVolumeClaim{})
		if err != nil {
			return nil, err
		}
		next := &v1.PersistentVolumeClaim{}
		if err := json.Unmarshal(after, next); err != nil {
			return nil, err
		}
		n, err := strconv.Atoi(w.claim.ResourceVersion)
		if err != nil {
			return nil, err
		}
		next.ResourceVersion = strconv.Itoa(n + 1)
		w.claim, answer = next, next
	}
	body, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body))}, nil
}

// pod is a pod whose volume refers to the claim.
func pod(name string) (*v1.Pod, *v1.Volume) {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}}
	p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}}}
	return p, &p.Spec.Volumes[0]
}

// mount is Mounted for a pod.
func (w *world) mount(name string) error {
	p, spec := pod(name)
	return w.Mounted(w.t.Context(), p, spec)
}

// sync is Synced for a pod, and what it begins.
func (w *world) sync(name string) {
	p, spec := pod(name)
	w.Synced(p, spec)
	synctest.Wait()
}

// has checks the claim's size and how far its resize is.
func (w *world) has(size string, progress v1.ClaimResourceStatus, conditions int) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.claim.Status
	if got := s.Capacity[v1.ResourceStorage]; got.String() != size || s.AllocatedResourceStatuses[v1.ResourceStorage] != progress || len(s.Conditions) != conditions {
		w.t.Errorf("the claim has %s, %q and %v; want %s, %q and %d conditions",
			got.String(), s.AllocatedResourceStatuses[v1.ResourceStorage], s.Conditions, size, progress, conditions)
	}
}

// expect compares the calls and events since the last time.
func (w *world) expect(calls int, events ...string) {
	w.t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.calls) != calls || !slices.Equal(w.events, events) {
		w.t.Errorf("%d calls and the events %q; want %d and %q", len(w.calls), w.events, calls, events)
	}
	w.calls, w.events = nil, nil
}
