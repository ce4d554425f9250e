package podsetup

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/objects"
	"github.com/podstream/podstream/internal/execsvc/setup/cgroup"
	"github.com/podstream/podstream/internal/execsvc/setup/userns"
	"github.com/podstream/podstream/internal/execsvc/setup/volume"
	"github.com/podstream/podstream/internal/kubeletdir"
)

// A pod with a user namespace has a range of IDs from its first sandbox to its tear-down; another pod has none.
func TestUsers(t *testing.T) {
	dir := t.TempDir()
	users, err := userns.New(userns.Config{PodDirs: kubeletdir.Pods{Current: dir}, Range: userns.Range{First: 65536, Length: 65536}})
	if err != nil {
		t.Fatal(err)
	}
	cgroups, err := cgroup.New(cgroup.Config{})
	if err != nil {
		t.Fatal(err)
	}
	w := New(Config{
		PodDirs: kubeletdir.Pods{Current: dir}, Volumes: volume.New(volume.Config{PodDirs: kubeletdir.Pods{Current: dir}}), Cgroups: cgroups, Users: users,
		Objects: objects.New(objects.Config{}), HostIPs: func() []string { return nil },
	})
	sandbox := func(uid types.UID, hostUsers *bool) (*criconfig.UserNamespace, error) {
		t.Helper()
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, Namespace: "default", Name: "web"}, Spec: v1.PodSpec{HostUsers: hostUsers}}
		if err := w.SetUp(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		given, err := w.SandboxOptions(pod)
		return given.UserNamespace, err
	}
	want := &criconfig.UserNamespace{HostID: 65536, Length: 65536}
	for _, hostUsers := range []*bool{nil, ptr.To(true)} {
		if got, err := sandbox("host", hostUsers); got != nil || err != nil {
			t.Errorf("without a user namespace: %+v, %v", got, err)
		}
	}
	for range 2 {
		if got, err := sandbox("a", ptr.To(false)); err != nil || !cmp.Equal(got, want) {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	}
	if got, err := sandbox("b", ptr.To(false)); !errors.Is(err, userns.ErrExhausted) {
		t.Errorf("a second pod has %+v, %v", got, err)
	}
	if err := w.TearDown(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if got, err := sandbox("b", ptr.To(false)); err != nil || !cmp.Equal(got, want) {
		t.Errorf("after the other pod is gone it has %+v, %v; want %+v", got, err, want)
	}
}
