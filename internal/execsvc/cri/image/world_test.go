package image_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/clocktest"
	"github.com/podstream/podstream/internal/execsvc/cri/credential"
	"github.com/podstream/podstream/internal/execsvc/cri/image"
	"github.com/podstream/podstream/internal/execsvc/cri/pullrecord"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/imagepolicy"
)

const patience = 30 * time.Second

// runtime is a container runtime with images, and the registry that it pulls from. It has one lock.
type runtime struct {
	internalapi.ImageManagerService
	mu sync.Mutex
	// has are the images of the node: IDs by full name.
	has map[string]string
	// offers are those of the registry; logins are "USER PASSWORD" of its private repositories, those that begin with
	// registry.example/private/.
	offers map[string]string
	logins map[string]bool
	pulls  int
	// hold, if set, is received from before a pull ends; begun is sent to when it begins.
	hold, begun chan struct{}
	// stored, if set, is called when a pull has stored an image; its error is the pull's. broken is that of the next look.
	stored func() error
	broken error
}

func (r *runtime) ImageStatus(_ context.Context, spec *runtimeapi.ImageSpec, _ bool) (*runtimeapi.ImageStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, full, err := image.Canonical(spec.GetImage())
	if err != nil {
		return nil, grpcstatus.Error(codes.InvalidArgument, err.Error())
	}
	if err := r.broken; err != nil {
		r.broken = nil
		return nil, err
	}
	id := r.has[full]
	for _, other := range r.has {
		if id == "" && strings.HasPrefix(other, full) { // As containerd, it takes the name for the beginning of an ID.
			id = other
		}
	}
	if id == "" {
		return &runtimeapi.ImageStatusResponse{}, nil
	}
	return &runtimeapi.ImageStatusResponse{Image: r.imageOf(id)}, nil
}

func (r *runtime) imageOf(id string) *runtimeapi.Image {
	found := &runtimeapi.Image{Id: id}
	for _, name := range slices.Sorted(maps.Keys(r.has)) {
		switch {
		case r.has[name] != id:
		case strings.Contains(name, "@"):
			found.RepoDigests = append(found.RepoDigests, name)
		default:
			found.RepoTags = append(found.RepoTags, name)
		}
	}
	return found
}

func (r *runtime) ListImages(context.Context, *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []*runtimeapi.Image
	for _, id := range slices.Compact(slices.Sorted(maps.Values(r.has))) {
		list = append(list, r.imageOf(id))
	}
	return list, nil
}

func (r *runtime) PullImage(
	_ context.Context, spec *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, _ *runtimeapi.PodSandboxConfig,
) (string, error) {
	_, full, err := image.Canonical(spec.GetImage())
	if err != nil {
		return "", grpcstatus.Error(codes.InvalidArgument, err.Error())
	}
	if r.hold != nil {
		r.begun <- struct{}{}
		<-r.hold
	}
	id, err := r.store(full, auth)
	if err == nil && r.stored != nil {
		err = r.stored()
	}
	return id, err
}

func (r *runtime) store(full string, auth *runtimeapi.AuthConfig) (id string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pulls++
	if strings.HasPrefix(full, "registry.example/private/") && !r.logins[auth.GetUsername()+" "+auth.GetPassword()] {
		return "", grpcstatus.Error(codes.Unknown, "failed to authorize: 401 Unauthorized")
	}
	id = r.offers[full]
	if id == "" {
		return "", grpcstatus.Error(codes.NotFound, full+": not found")
	}
	repository, _, _ := strings.Cut(strings.TrimPrefix(full, "registry.example/"), ":")
	r.has[full], r.has["registry.example/"+repository+"@"+digestOf(id)] = id, id
	return id, nil
}

func (r *runtime) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

func digestOf(id string) string {
	return fmt.Sprintf("sha256:%064s", strings.TrimPrefix(id, "sha256:"))
}

// world is a node: the real Puller, Keyring and Records on that runtime.
type world struct {
	t        *testing.T
	dir      string
	runtime  *runtime
	secrets  map[string]*v1.Secret
	accounts credential.Accounts
	plugins  string
	policy   imagepolicy.Policy
	clock    *clocktest.Timers
	events   *events.Recorder
	done     chan types.UID

	puller  *image.Puller
	records *pullrecord.Records
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, dir: t.TempDir(), secrets: map[string]*v1.Secret{}, clock: clocktest.NewTimers(time.Unix(1_000_000, 0)),
		runtime: &runtime{
			has:    map[string]string{"docker.io/library/loaded:1": "sha256:10ad"},
			offers: map[string]string{app: "sha256:a99", "registry.example/public/app:1": "sha256:b11", other: "sha256:a99"},
			logins: map[string]bool{"alice sesame": true, "bob hunter2": true},
		},
	}
	w.start()
	t.Cleanup(func() { w.puller.Close() })
	return w
}

const (
	app   = "registry.example/private/app:1"
	other = "registry.example/private/other:1"
)

func (w *world) start() {
	w.t.Helper()
	var err error
	if w.records, err = pullrecord.New(pullrecord.Config{RootDir: w.dir, Policy: w.policy}); err != nil {
		w.t.Fatal(err)
	}
	keyring, err := credential.New(credential.Config{
		Secrets: w, Files: credential.DefaultFiles(w.dir)[:1], PluginConfig: w.plugins, PluginDir: w.dir, Accounts: w.accounts, Clock: w.clock,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	done := make(chan types.UID, 1000)
	w.done, w.events = done, events.New(events.Config{Clock: w.clock})
	w.puller = image.New(image.Config{
		Images: w.runtime, Credentials: keyring, Records: w.records, Done: func(uid types.UID) { done <- uid }, Events: w.events, Clock: w.clock,
	})
}

// restart is a restart of podexecd.
func (w *world) restart() {
	w.puller.Close()
	w.start()
}

// Secret is part of credential.Secrets.
func (w *world) Secret(source, namespace, name string) (*v1.Secret, error) {
	if s := w.secrets[source+" "+namespace+"/"+name]; s != nil {
		return s, nil
	}
	return nil, errors.New("it doesn't exist")
}

// secret makes a pull secret in a namespace of the API server, or replaces it. Without a UID it stands beside manifests.
func (w *world) secret(namespace, name, uid, user, password string) {
	source := "api"
	if uid == "" {
		source = "file"
	}
	w.secrets[source+" "+namespace+"/"+name] = &v1.Secret{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Namespace: namespace, Name: name}, Type: v1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{v1.DockerConfigJsonKey: []byte(
			fmt.Sprintf(`{"auths":{"registry.example":{"username":%q,"password":%q}}}`, user, password))},
	}
}

var pods int

// pod returns a new pod of a namespace, "NAMESPACE" of the API server or "file NAMESPACE", with these pull secrets.
func pod(namespace string, policy v1.PullPolicy, name string, secrets ...string) *v1.Pod {
	source := "api"
	if rest, ok := strings.CutPrefix(namespace, "file "); ok {
		source, namespace = "file", rest
	}
	pods++
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			UID: types.UID(fmt.Sprint("pod-", pods)), Namespace: namespace, Name: fmt.Sprint("pod-", pods),
			Annotations: map[string]string{"kubernetes.io/config.source": source},
		},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: name, ImagePullPolicy: policy}}},
	}
	for _, s := range secrets {
		p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, v1.LocalObjectReference{Name: s})
	}
	return p
}

// starts requests the pod's image until there is a result: "runs", or the reason and the message why not.
func (w *world) starts(p *v1.Pod) string {
	w.t.Helper()
	for {
		found, wait, _ := w.puller.Ensure(w.t.Context(), p, &p.Spec.Containers[0], nil)
		switch {
		case found != nil:
			w.puller.Used(p.UID, "main")
			return "runs"
		case !wait.Pulling:
			return wait.Reason + ": " + wait.Message
		}
		w.await(p)
	}
}

func (w *world) await(p *v1.Pod) {
	w.t.Helper()
	for {
		select {
		case uid := <-w.done:
			if uid == p.UID {
				return
			}
		case <-time.After(patience):
			w.t.Fatalf("no end of the pull in %v", patience)
		}
	}
}

// wantRuns and wantRefused say whether a new pod with the image starts.
func (w *world) wantRuns(what string, p *v1.Pod) {
	w.t.Helper()
	if got := w.starts(p); got != "runs" {
		w.t.Errorf("%s: %s; want it to run", what, got)
	}
}

func (w *world) wantRefused(what string, p *v1.Pod) {
	w.t.Helper()
	if got := w.starts(p); !strings.HasPrefix(got, "ErrImagePull: ") || !strings.Contains(got, "401 Unauthorized") {
		w.t.Errorf("%s: %s; want ErrImagePull", what, got)
	}
}

// wantPulls compares the number of pulls since the last call.
func (w *world) wantPulls(what string, want int) {
	w.t.Helper()
	got := 0
	w.runtime.set(func() { got, w.runtime.pulls = w.runtime.pulls, 0 })
	if got != want {
		w.t.Errorf("%s: %d pulls; want %d", what, got, want)
	}
}
