package apivolumes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/podstream/podstream/internal/execsvc/cluster/apiclient"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is an API server without a network, and a Volumes that reads from it.
type world struct {
	*Volumes

	mu sync.Mutex
	// objects are the objects by the last part of their path: "claims/default/data".
	objects map[string]any
	// away has each request fail, and hangs has it wait until its context ends.
	away, hangs bool
	// delay is how long each request takes.
	delay time.Duration
	// reads counts the requests by object; now and most are the requests at a time.
	reads     map[string]int
	now, most int
	attached  []v1.AttachedVolume
	woken     []types.UID
}

func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{objects: map[string]any{}, reads: map[string]int{}}
		client, err := apiclient.New(&rest.Config{
			Host: "http://api", QPS: -1, Transport: w,
			ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"},
		})
		if err != nil {
			t.Fatal(err)
		}
		w.Volumes = New(Config{
			Client: client, Node: "n1",
			Attached: func() []v1.AttachedVolume {
				w.mu.Lock()
				defer w.mu.Unlock()
				return w.attached
			},
			Wake: func(uid types.UID) { w.set(func() { w.woken = append(w.woken, uid) }) },
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

// taken returns the pods that were woken, and the requests, since the last call.
func (w *world) taken() (woken []types.UID, reads map[string]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	woken, reads = w.woken, w.reads
	w.woken, w.reads = nil, map[string]int{}
	return woken, reads
}

var errAway = errors.New("connection refused")

// RoundTrip is part of http.RoundTripper.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	parts := strings.Split(r.URL.Path, "/")
	name := parts[len(parts)-2] + "/" + parts[len(parts)-1]
	w.mu.Lock()
	w.reads[name]++
	w.now++
	w.most = max(w.most, w.now)
	away, hangs, delay, object := w.away, w.hangs, w.delay, w.objects[name]
	w.mu.Unlock()
	defer w.set(func() { w.now-- })
	if hangs {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	time.Sleep(delay)
	code := http.StatusOK
	switch {
	case away:
		return nil, errAway
	case r.Method != http.MethodGet || r.URL.Query().Get("watch") != "":
		code, object = http.StatusForbidden, &metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden}
	case object == nil:
		code, object = http.StatusNotFound, &metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound,
			Code: http.StatusNotFound, Message: name + " not found",
		}
	}
	data, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(data))}, nil
}

// pod is a pod whose volume refers to the claim.
func pod(uid types.UID, claim string) (*v1.Pod, *v1.Volume) {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod-" + string(uid), UID: uid}}
	p.Spec.Containers = []v1.Container{{Name: "c", VolumeMounts: []v1.VolumeMount{{Name: "data", MountPath: "/data"}}}}
	p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}}
	return p, &p.Spec.Volumes[0]
}

// bound stores a claim that is bound to a PersistentVolume, and returns both.
func (w *world) bound(name string, change ...func(*v1.PersistentVolumeClaim, *v1.PersistentVolume)) {
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("u-" + name), ResourceVersion: "1"}}
	claim.Spec.VolumeName, claim.Status.Phase = "pv-"+name, v1.ClaimBound
	volume := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + name, UID: types.UID("v-" + name), ResourceVersion: "1"}}
	volume.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: name, UID: claim.UID}
	for _, f := range change {
		f(claim, volume)
	}
	w.set(func() {
		w.objects["persistentvolumeclaims/"+name], w.objects["persistentvolumes/pv-"+name] = claim, volume
	})
}

// claim is Claim with a time limit.
func (w *world) claim(t *testing.T, p *v1.Pod, spec *v1.Volume) (Claimed, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return w.Claim(ctx, p, spec)
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
