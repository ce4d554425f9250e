package podexecd

import (
	"context"
	"errors"
	"slices"
	"testing"

	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/reclaim/eviction"
)

// statusRuntime is a runtime that has only a status, or an error in place of it.
type statusRuntime struct {
	internalapi.RuntimeService
	err    error
	config string
}

func (r *statusRuntime) Status(context.Context, bool) (*runtimeapi.StatusResponse, error) {
	return &runtimeapi.StatusResponse{Info: map[string]string{"config": r.config}}, r.err
}

// The image that sandboxes are of is the runtime's current one, and the last one while the runtime doesn't answer. Before
// the first answer it isn't known: then no image may be removed.
func TestSandboxImages(t *testing.T) {
	busy := errors.New("busy")
	r := &statusRuntime{}
	images := (&connection{runtime: r}).sandboxImages()
	for _, step := range []struct {
		config string
		err    error
		want   []string
		fails  bool
	}{
		{"", busy, nil, true},
		{`{"sandboxImage": "pause:3"}`, nil, []string{"pause:3"}, false},
		{"", busy, []string{"pause:3"}, false},
		{`{"sandboxImage": "pause:4"}`, nil, []string{"pause:4"}, false},
		{`{}`, nil, nil, false},
		{`?`, nil, nil, false},
	} {
		r.config, r.err = step.config, step.err
		if got, err := images(t.Context()); !slices.Equal(got, step.want) || (err != nil) != step.fails {
			t.Errorf("%q, %v: %q, %v; want %q, an error: %t", step.config, step.err, got, err, step.want, step.fails)
		}
	}
}

// TestDisksOf: the first directory of each kind counts, as containerd, CRI-O and CRI-O with images apart report them.
func TestDisksOf(t *testing.T) {
	at := func(dirs ...string) (all []*runtimeapi.FilesystemUsage) {
		for _, dir := range dirs {
			all = append(all, &runtimeapi.FilesystemUsage{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: dir}})
		}
		return all
	}
	for name, c := range map[string]struct {
		images, containers []string
		want               eviction.Disks
	}{
		"containerd":             {[]string{"/overlayfs"}, nil, eviction.Disks{Images: "/overlayfs"}},
		"several snapshotters":   {[]string{"/overlayfs", "/erofs"}, nil, eviction.Disks{Images: "/overlayfs"}},
		"CRI-O":                  {[]string{"/storage"}, []string{"/storage"}, eviction.Disks{Images: "/storage", Containers: "/storage"}},
		"CRI-O with images away": {[]string{"/images"}, []string{"/storage"}, eviction.Disks{Images: "/images", Containers: "/storage"}},
		"one without a path":     {[]string{"", "/images"}, []string{""}, eviction.Disks{Images: "/images"}},
		"none":                   {nil, []string{"/storage"}, eviction.Disks{}},
	} {
		got, err := disksOf(&runtimeapi.ImageFsInfoResponse{ImageFilesystems: at(c.images...), ContainerFilesystems: at(c.containers...)})
		if got != c.want || (err != nil) != (c.want == eviction.Disks{}) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
