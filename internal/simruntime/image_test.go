package simruntime

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func (h *harness) image(name string) *runtimeapi.Image {
	h.t.Helper()
	resp, err := h.images.ImageStatus(h.t.Context(), &runtimeapi.ImageSpec{Image: name}, false)
	if err != nil {
		h.t.Fatal(err)
	}
	return resp.GetImage()
}

func (h *harness) pull(name string) (string, error) {
	return h.images.PullImage(h.t.Context(), &runtimeapi.ImageSpec{Image: name}, nil, nil)
}

// ImageStatus returns no image, and no error, until the image is pulled. Then it is found by tag, ID and digest until
// it is removed.
func TestImageLifecycle(t *testing.T) {
	h := start(t, Config{})
	if got := h.image("sim/app:1"); got != nil {
		t.Fatalf("before the pull: %v", got)
	}
	id, err := h.pull("sim/app:1")
	if err != nil {
		t.Fatal(err)
	}
	pulled := h.image("sim/app:1")
	if pulled.GetId() != id || len(pulled.GetRepoTags()) != 1 || pulled.GetRepoTags()[0] != "docker.io/sim/app:1" || pulled.GetSize() == 0 {
		t.Fatalf("after the pull: %v", pulled)
	}
	for _, name := range []string{id, pulled.GetRepoDigests()[0], "docker.io/sim/app:1"} {
		if got := h.image(name); got.GetId() != id {
			t.Errorf("image %s: %v", name, got)
		}
	}
	if list, err := h.images.ListImages(t.Context(), nil); err != nil || len(list) != 1 {
		t.Errorf("list: %v, %v", list, err)
	}
	filter := &runtimeapi.ImageFilter{Image: &runtimeapi.ImageSpec{Image: "sim/other"}}
	if list, err := h.images.ListImages(t.Context(), filter); err != nil || len(list) != 0 {
		t.Errorf("filtered list: %v, %v", list, err)
	}
	for range 2 {
		if err := h.images.RemoveImage(t.Context(), &runtimeapi.ImageSpec{Image: id}); err != nil {
			t.Error(err)
		}
	}
	if got := h.image("sim/app:1"); got != nil {
		t.Errorf("after the removal: %v", got)
	}
}

// Imported images are present without a pull until they are removed.
func TestImportedImages(t *testing.T) {
	h := start(t, Config{})
	name := "localhost/podstream-sample:dev"
	imported := h.image(name)
	if imported == nil {
		t.Fatal("the imported image is absent")
	}
	if err := h.images.RemoveImage(t.Context(), &runtimeapi.ImageSpec{Image: name}); err != nil {
		t.Fatal(err)
	}
	if got := h.image(name); got != nil {
		t.Errorf("after the removal: %v", got)
	}
	if id, err := h.pull(name); err != nil || id != imported.GetId() {
		t.Errorf("pull: %v, %v", id, err)
	}
}

// Pulling an image that isn't in the registry returns NotFound, with containerd's error text.
func TestPullErrors(t *testing.T) {
	h := start(t, Config{Images: []string{"sim/", "busybox"}})
	for _, name := range []string{"missing/app:1", "nginx", "localhost/app"} {
		if _, err := h.pull(name); status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), "failed to pull and unpack image") {
			t.Errorf("pull %s: %v", name, err)
		}
	}
	if _, err := h.pull("busybox:1.36"); err != nil {
		t.Error(err)
	}
	if _, err := h.pull("Not A Reference"); err == nil || !strings.Contains(err.Error(), "invalid reference format") {
		t.Errorf("pull of no reference: %v", err)
	}
}

// A pull of a slow image takes the time in its tag.
func TestSlowPull(t *testing.T) {
	h := start(t, Config{})
	done := make(chan error, 1)
	go func() {
		_, err := h.pull("slow/app:1500ms")
		done <- err
	}()
	h.waitTimer(1500 * time.Millisecond)
	if got := h.image("slow/app:1500ms"); got != nil {
		t.Errorf("during the pull: %v", got)
	}
	h.clock.Step(1500 * time.Millisecond)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if h.image("slow/app:1500ms") == nil {
		t.Error("the image is absent after the pull")
	}
}

func TestImageFsInfo(t *testing.T) {
	apart, err := start(t, Config{ContainersDir: "/containers"}).images.ImageFsInfo(t.Context())
	if all := apart.GetContainerFilesystems(); err != nil || len(all) != 1 || all[0].GetFsId().GetMountpoint() != "/containers" {
		t.Errorf("containers: %v, %v", all, err)
	}
	h := start(t, Config{StateDir: "/state"})
	if _, err := h.pull("sim/app"); err != nil {
		t.Fatal(err)
	}
	info, err := h.images.ImageFsInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	usage := info.GetImageFilesystems()
	if len(usage) != 1 || len(info.GetContainerFilesystems()) != 0 || usage[0].GetFsId().GetMountpoint() != "/state" || usage[0].GetUsedBytes().GetValue() != imageSize {
		t.Errorf("usage: %v", usage)
	}
}

// A container runs on when its image is removed. Its status then has only the image of its config.
func TestContainerOutlivesItsImage(t *testing.T) {
	h := start(t, Config{})
	id := h.sample("c")
	image := h.status(id).GetImageId()
	if err := h.images.RemoveImage(t.Context(), &runtimeapi.ImageSpec{Image: image}); err != nil {
		t.Fatal(err)
	}
	if s := h.status(id); s.GetState() != running || s.GetImageRef() != image {
		t.Errorf("status: %v", s)
	}
}

func TestNormalize(t *testing.T) {
	sum := "@sha256:" + strings.Repeat("0", 64)
	for ref, want := range map[string]string{
		"busybox":                      "docker.io/library/busybox:latest",
		"sim/app:1":                    "docker.io/sim/app:1",
		"localhost/app":                "localhost/app:latest",
		"localhost:5000/a/b:x":         "localhost:5000/a/b:x",
		"registry.k8s.io/pause:3.9":    "registry.k8s.io/pause:3.9",
		"sim/app" + sum:                "docker.io/sim/app" + sum,
		"sim/app:1" + sum:              "docker.io/sim/app" + sum,
		"":                             "",
		"sim/App":                      "",
		"sim/app:":                     "",
		"sim/app@sha256:12":            "",
		"localhost/" + "has space:dev": "",
	} {
		got, err := normalize(ref)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("normalize(%q) = %q, %v; want %q", ref, got, err, want)
		}
	}
}
