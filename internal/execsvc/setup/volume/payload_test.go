package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/mount-utils"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/objects"
	"github.com/podstream/podstream/internal/kubeletdir"
)

func projectedVolume(name string, sources ...v1.VolumeProjection) v1.Volume {
	return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: sources}}}
}

func downwardVolume(name, path, field string) v1.Volume {
	item := v1.DownwardAPIVolumeFile{Path: path, FieldRef: &v1.ObjectFieldSelector{FieldPath: field}}
	source := &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{item}}
	return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{DownwardAPI: source}}
}

// TestPayload: each kind has its files in the kubelet's directory, on the disk or in memory, readable for the
// fsGroup.
func TestPayload(t *testing.T) {
	m := realManager(t)
	hidden := &v1.SecretProjection{Items: []v1.KeyToPath{{Key: "k", Path: "deep/secret", Mode: ptr.To[int32](0o400)}}}
	hidden.Name = "s"
	name := &v1.DownwardAPIProjection{Items: downwardVolume("", "name", "metadata.name").DownwardAPI.Items}
	projected := projectedVolume("all", v1.VolumeProjection{Secret: hidden}, v1.VolumeProjection{DownwardAPI: name})
	pod := grouped(podWith("u1", configMapVolume("cm"), secretVolume("s"), downwardVolume("down", "uid", "metadata.uid"), projected), 4321)
	setUpWith(t, m, pod, known{"cm": "setting", "s": "hidden"})
	for _, c := range []struct {
		volume, plugin, file, want string
		mode                       uint32
		inMemory                   bool
	}{
		{volume: "cm", plugin: "kubernetes.io~configmap", file: "k", want: "setting", mode: 0o644},
		{volume: "s", plugin: "kubernetes.io~secret", file: "k", want: "hidden", mode: 0o644, inMemory: true},
		{volume: "down", plugin: "kubernetes.io~downward-api", file: "uid", want: "u1", mode: 0o644},
		{volume: "all", plugin: "kubernetes.io~projected", file: "deep/secret", want: "hidden", mode: 0o440, inMemory: true},
		{volume: "all", plugin: "kubernetes.io~projected", file: "name", want: "p", mode: 0o644, inMemory: true},
	} {
		dir := filepath.Join(m.podDir("u1"), "volumes", c.plugin, c.volume)
		holds(t, filepath.Join(dir, c.file), c.want)
		if inMemory := fileSystem(t, dir).Type == unix.TMPFS_MAGIC; inMemory != c.inMemory {
			t.Errorf("%s is in memory: %v, want %v", c.volume, inMemory, c.inMemory)
		}
		file, err := filepath.EvalSymlinks(filepath.Join(dir, c.file))
		if err != nil {
			t.Fatal(err)
		}
		if st := status(t, file); st.Mode&0o7777 != c.mode || st.Gid != 4321 {
			t.Errorf("%s/%s has mode %o and group %d, want %o and the fsGroup", c.volume, c.file, st.Mode&0o7777, st.Gid, c.mode)
		}
		own := uint32(0o2777)
		if c.inMemory {
			own = 0o3777
		}
		if st := status(t, dir); st.Mode&0o7777 != own || st.Gid != 4321 {
			t.Errorf("%s itself has mode %o and group %d, want %o and the fsGroup", c.volume, st.Mode&0o7777, st.Gid, own)
		}
	}
}

// TestUpdateInPlace: the next SetUp updates the volume of a changed object, but a subPath only with the next
// container. A removed object leaves its last content. Without a change nothing is written.
func TestUpdateInPlace(t *testing.T) {
	m := realManager(t)
	for name, volume := range map[string]v1.Volume{"cm": configMapVolume("cm"), "s": secretVolume("s")} {
		pod := podWith("u1", volume)
		setUpWith(t, m, pod, known{name: "old"})
		dir := dirOf(t, m, pod, name)
		before := status(t, filepath.Join(dir, "..data"))
		c := &v1.Container{Name: "c", VolumeMounts: []v1.VolumeMount{{Name: name, SubPath: "k"}}}
		mounts, err := m.Mounts(t.Context(), pod, c, nil)
		if err != nil {
			t.Fatal(err)
		}
		setUpWith(t, m, pod, known{name: "old"})
		if after := status(t, filepath.Join(dir, "..data")); after.Ino != before.Ino {
			t.Errorf("%s was written again without a change", name)
		}

		setUpWith(t, m, pod, known{name: "new"})
		holds(t, filepath.Join(dir, "k"), "new")
		holds(t, mounts[0].HostPath, "old")
		if _, err := m.Mounts(t.Context(), pod, c, nil); err != nil {
			t.Fatal(err)
		}
		holds(t, mounts[0].HostPath, "new")

		var outdated []string
		err = m.SetUp(t.Context(), Request{Pod: pod, Objects: known{}, Outdated: func(err error) { outdated = append(outdated, err.Error()) }})
		if err != nil {
			t.Errorf("without its object SetUp fails: %v", err)
		}
		if len(outdated) != 1 || !strings.Contains(outdated[0], fmt.Sprintf("volume %q", name)) || !strings.Contains(outdated[0], "not found") {
			t.Errorf("without its object: outdated %q", outdated)
		}
		setUpWith(t, m, pod, unknown{})
		holds(t, filepath.Join(dir, "k"), "new")
		if err := m.TearDown(t.Context(), "u1"); err != nil {
			t.Fatal(err)
		}
		gone(t, m.podDir("u1"))
	}
}

// TestNoSpace: a full volume keeps its content, and a pod without content waits.
func TestNoSpace(t *testing.T) {
	m, large := realManager(t), strings.Repeat("x", 1<<20)
	limited := func(uid types.UID) *v1.Pod {
		pod := podWith(uid, secretVolume("s"))
		pod.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse("64Ki")}
		return pod
	}
	pod, reported := limited("u1"), 0
	for _, text := range []string{"old", large, "new"} {
		err := m.SetUp(t.Context(), Request{Pod: pod, Objects: known{"s": text}, Outdated: func(error) { reported++ }})
		if err != nil {
			t.Fatal(err)
		}
		if text == large {
			text = "old"
		}
		holds(t, filepath.Join(dirOf(t, m, pod, "s"), "k"), text)
	}
	if reported != 1 {
		t.Errorf("%d reports of an outdated volume; want 1", reported)
	}
	if err := m.SetUp(t.Context(), Request{Pod: limited("u2"), Objects: known{"s": large}}); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a pod starts without the volume's content: error %v", err)
	}
}

// unknown are objects that podconfigd hasn't sent.
type unknown struct{}

func (unknown) ConfigMap(string) (*v1.ConfigMap, error) { return nil, objects.ErrUnknown }
func (unknown) Secret(string) (*v1.Secret, error)       { return nil, objects.ErrUnknown }

func TestOptionalObjectIsWaitedFor(t *testing.T) {
	m := newManager(t)
	volume := configMapVolume("cm")
	volume.ConfigMap.Optional = ptr.To(true)
	pod := podWith("u1", volume)
	if err := m.SetUp(t.Context(), Request{Pod: pod, Objects: unknown{}}); err == nil {
		t.Error("SetUp doesn't wait for an optional object")
	}
	setUpWith(t, m, pod, known{})
	there(t, dirOf(t, m, pod, "cm"))
	setUpWith(t, m, pod, known{"cm": "x"})
	holds(t, filepath.Join(dirOf(t, m, pod, "cm"), "k"), "x")
}

func TestTokenWithoutAServer(t *testing.T) {
	pod := podWith("u1", projectedVolume("v", v1.VolumeProjection{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}}))
	if err := newManager(t).SetUp(t.Context(), Request{Pod: pod}); err == nil || !strings.Contains(err.Error(), "no API server") {
		t.Errorf("error %v, want one for a missing API server", err)
	}
}

// server is an API server that returns tokens or an error, or doesn't answer.
type server struct {
	token, anchors string
	err            error
	hangs          bool
}

func (s *server) Token(ctx context.Context, _ *v1.Pod, _ *v1.ServiceAccountTokenProjection) ([]byte, error) {
	if s.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return []byte(s.token), s.err
}

func (s *server) TrustBundle(*v1.Pod, *v1.ClusterTrustBundleProjection) ([]byte, error) {
	return []byte(s.anchors), s.err
}

// TestAPIServerAway: without an API server, a new Manager, as after a restart, keeps a volume with a token and trust
// anchors as it is, and reports that; an API server that doesn't answer delays it for seconds at most. A volume
// without content waits.
func TestAPIServerAway(t *testing.T) {
	token, bundle := &v1.ServiceAccountTokenProjection{Path: "token"}, &v1.ClusterTrustBundleProjection{Name: ptr.To("b"), Path: "ca"}
	sources := []v1.VolumeProjection{{ServiceAccountToken: token}, {ClusterTrustBundle: bundle}}
	for name, away := range map[string]*server{
		"refuses": {err: errors.New("connection refused")}, "doesn't answer": {hangs: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				life := func(s *server) *Manager {
					return New(Config{PodDirs: kubeletdir.Pods{Current: dir}, Mounter: mount.NewFakeMounter(nil), Tokens: s, Bundles: s})
				}
				pod := podWith("u1", projectedVolume("v", sources...))
				before := life(&server{token: "old", anchors: "roots"})
				setUp(t, before, pod)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				var outdated []string
				next := life(away)
				if err := next.SetUp(ctx, Request{Pod: pod, Outdated: func(err error) { outdated = append(outdated, err.Error()) }}); err != nil {
					t.Errorf("SetUp of an existing volume fails: %v", err)
				}
				if len(outdated) != 1 || !strings.Contains(outdated[0], `volume "v"`) || !strings.Contains(outdated[0], "serviceAccountToken") {
					t.Errorf("outdated: %q", outdated)
				}
				if took := time.Since(began); took > refreshTimeout {
					t.Errorf("it took %v", took)
				}
				at := dirOf(t, next, pod, "v")
				holds(t, filepath.Join(at, "token"), "old")
				holds(t, filepath.Join(at, "ca"), "roots")
				if err := next.SetUp(ctx, Request{Pod: podWith("u2", projectedVolume("v", sources...))}); err == nil {
					t.Error("a pod starts without a token")
				}

				setUp(t, life(&server{token: "new", anchors: "roots"}), pod)
				holds(t, filepath.Join(at, "token"), "new")
			})
		})
	}
}

func TestMountPoints(t *testing.T) {
	mount := func(name, path string) v1.VolumeMount { return v1.VolumeMount{Name: name, MountPath: path} }
	for name, c := range map[string]struct {
		mounts []v1.VolumeMount
		want   []string
	}{
		"alone":   {mounts: []v1.VolumeMount{mount("v", "/a"), mount("x", "/b")}},
		"beside":  {mounts: []v1.VolumeMount{mount("v", "/a"), mount("x", "/ab"), mount("x", "/a")}},
		"below":   {mounts: []v1.VolumeMount{mount("x", "/a/b/c"), mount("v", "/a/")}, want: []string{"b/c"}},
		"unclean": {mounts: []v1.VolumeMount{mount("v", "a"), mount("x", "//a/./b/../c/")}, want: []string{"c"}},
		"below one below": {
			mounts: []v1.VolumeMount{mount("v", "/a"), mount("x", "/a/b"), mount("y", "/a/b-c"), mount("z", "/a/b/d")},
			want:   []string{"b", "b-c"},
		},
		"itself":             {mounts: []v1.VolumeMount{mount("v", "/a"), mount("v", "/a/b")}, want: []string{"b"}},
		"at the root":        {mounts: []v1.VolumeMount{mount("v", "/"), mount("x", "/b")}, want: []string{"b"}},
		"outside":            {mounts: []v1.VolumeMount{mount("v", "/a"), mount("x", "/a/../../b")}},
		"below another part": {mounts: []v1.VolumeMount{{Name: "v", MountPath: "/a", SubPath: "s"}, mount("x", "/a/b")}},
	} {
		pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{VolumeMounts: c.mounts}, {VolumeMounts: c.mounts}}}}
		if got := mountPoints(pod, "v"); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestMountPointsAreMade: a volume that is read-only for containers has a directory for each mount inside, also after
// its content changes.
func TestMountPointsAreMade(t *testing.T) {
	m := newManager(t)
	pod := podWith("u1", configMapVolume("cm"), emptyDirVolume("data", v1.EmptyDirVolumeSource{}))
	pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{
		{Name: "cm", MountPath: "/cm"}, {Name: "data", MountPath: "/cm/a/b"}, {Name: "data", MountPath: "/cm/k/below-a-file"}}
	umask := unix.Umask(0o077)
	defer unix.Umask(umask)
	for _, text := range []string{"old", "new"} {
		setUpWith(t, m, pod, known{"cm": text})
		dir := dirOf(t, m, pod, "cm")
		holds(t, filepath.Join(dir, "k"), text)
		for _, point := range []string{"a", "a/b"} {
			if got := permissions(t, filepath.Join(dir, point)); got != mountPointMode {
				t.Errorf("%s has mode %o, want %o", point, got, mountPointMode)
			}
		}
	}
	if entries, err := os.ReadDir(dirOf(t, m, pod, "data")); err != nil || len(entries) > 0 {
		t.Errorf("an emptyDir has %v (%v)", entries, err)
	}
}
