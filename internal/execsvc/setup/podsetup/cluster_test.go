package podsetup

import (
	"errors"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/objects"
	"github.com/podstream/podstream/internal/execsvc/setup/cgroup"
	"github.com/podstream/podstream/internal/execsvc/setup/dns"
	"github.com/podstream/podstream/internal/execsvc/setup/volume"
	"github.com/podstream/podstream/internal/kubeletdir"
)

// members is a cluster with one service and one RuntimeClass, which may be unread.
type members struct {
	unread  error
	dropped types.UID
}

func (m *members) Services(*v1.Pod) ([]criconfig.EnvVar, error) {
	return []criconfig.EnvVar{{Name: "DB_SERVICE_HOST", Value: "10.0.0.1"}}, m.unread
}

func (m *members) Handler(pod *v1.Pod) (string, error) {
	return "handler-of-" + *pod.Spec.RuntimeClassName, m.unread
}

func (m *members) Drop(uid types.UID) { m.dropped = uid }

// A pod of a cluster that needs the cluster's DNS has the kubelet's warning while the node has no address of it. Without
// a cluster it has none.
func TestMissingClusterDNS(t *testing.T) {
	cgroups, err := cgroup.New(cgroup.Config{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{PodDirs: kubeletdir.Pods{Current: t.TempDir()}, Cgroups: cgroups}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a", Namespace: "default", Name: "web"}, Spec: v1.PodSpec{DNSPolicy: v1.DNSClusterFirst}}
	warnings := func() (reasons []string) {
		t.Helper()
		given, err := New(cfg).SandboxOptions(pod)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range given.Warnings {
			reasons = append(reasons, w.Reason)
		}
		return reasons
	}
	if got := warnings(); got != nil {
		t.Errorf("without a cluster the pod has the warnings %q", got)
	}
	cfg.Cluster = &members{}
	if got := warnings(); !slices.Equal(got, []string{dns.MissingClusterDNS}) {
		t.Errorf("in a cluster the pod has the warnings %q; want that of the DNS", got)
	}
	cfg.DNS.ClusterDNS = []string{"10.0.0.10"}
	if got := warnings(); got != nil {
		t.Errorf("with the DNS the pod has the warnings %q", got)
	}
}

// The pod receives the cluster's services and handler, or waits for them; without a cluster there are no services,
// and the class is the handler.
func TestCluster(t *testing.T) {
	cgroups, err := cgroup.New(cgroup.Config{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{PodDirs: kubeletdir.Pods{Current: t.TempDir()}, Cgroups: cgroups, Objects: objects.New(objects.Config{}), HostIPs: func() []string { return nil }}
	cfg.Volumes = volume.New(volume.Config{PodDirs: cfg.PodDirs})
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: "a", Namespace: "default", Name: "web"},
		Spec: v1.PodSpec{
			RuntimeClassName: ptr.To("gvisor"), HostNetwork: true,
			Containers: []v1.Container{{Name: "main", Env: []v1.EnvVar{{Name: "URL", Value: "db://$(DB_SERVICE_HOST)"}}}},
		},
	}
	check := func(w *Manager, wantEnv, wantHandler string, wantErr error) {
		t.Helper()
		if err := w.SetUp(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		given, err := w.ContainerOptions(t.Context(), pod, &pod.Spec.Containers[0], nil)
		var env []string
		for _, v := range given.Env {
			env = append(env, v.Name+"="+v.Value)
		}
		if got := strings.Join(env, " "); got != wantEnv || !errors.Is(err, wantErr) {
			t.Errorf("environment %q, %v; want %q, %v", got, err, wantEnv, wantErr)
		}
		if got, err := w.RuntimeHandler(pod); wantErr == nil && got != wantHandler || !errors.Is(err, wantErr) {
			t.Errorf("handler %q, %v; want %q, %v", got, err, wantHandler, wantErr)
		}
	}
	check(New(cfg), "URL=db://$(DB_SERVICE_HOST)", "gvisor", nil)
	m := &members{}
	cfg.Cluster = m
	w := New(cfg)
	check(w, "DB_SERVICE_HOST=10.0.0.1 URL=db://10.0.0.1", "handler-of-gvisor", nil)
	m.unread = errors.New("not read yet")
	check(w, "", "", m.unread)
	if err := w.TearDown(t.Context(), pod.UID); err != nil || m.dropped != "a" {
		t.Errorf("TearDown: %v, dropped %q", err, m.dropped)
	}
}
