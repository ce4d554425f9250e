package podctl

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

func imageID(letter string) string { return "sha256:" + strings.Repeat(letter, 64) }

func exampleImages() []*podexecv1.Image {
	return []*podexecv1.Image{
		{
			Id: imageID("a"), Tags: []string{"docker.io/library/busybox:1", "docker.io/library/busybox:latest"}, SizeBytes: 4_261_574,
			Digests: []string{"docker.io/library/busybox@" + imageID("1")}, LastUsedTime: podctltest.Before(time.Minute),
			UsedBy: []*podconfigv1.PodRef{usedBy("a"), usedBy("b"), usedBy("c"), usedBy("d")},
		},
		{Id: imageID("b"), Digests: []string{"registry.example:5000/app@" + imageID("2")}, SizeBytes: 500_000_000, LastUsedTime: podctltest.Before(time.Hour)},
		{Id: imageID("c"), Tags: []string{"registry.example:5000/app:3"}, SizeBytes: 999},
		{Id: imageID("d"), SizeBytes: 0, Pinned: true},
	}
}

func TestImages(t *testing.T) {
	for _, output := range []string{"table", "wide", "json", "yaml"} {
		t.Run(output, func(t *testing.T) {
			n := newNode(t)
			n.withImages(&imagePodexecd{images: exampleImages()})
			if code := n.run(t.Context(), "images", "-o", output); code != exitOK || n.stderr.String() != "" {
				t.Errorf("exit code %d, stderr:\n%s", code, n.stderr)
			}
			n.golden("images."+output, n.stdout.String())
		})
	}
	for _, args := range [][]string{{"images", "list"}, {"images", "ls"}} {
		n := newNode(t)
		n.withImages(&imagePodexecd{images: exampleImages()})
		if code := n.run(t.Context(), args...); code != exitOK {
			t.Errorf("%v: exit code %d, stderr:\n%s", args, code, n.stderr)
		}
		n.golden("images.table", n.stdout.String())
	}
	n := newNode(t)
	n.withImages(&imagePodexecd{})
	if code := n.run(t.Context(), "images"); code != exitOK || n.stderr.String() != "podctl: no images found\n" {
		t.Errorf("exit code %d, stderr %q", code, n.stderr)
	}
}

// started is a pull with that progress; a negative total isn't known.
func started(done, total int64, doneLayers, totalLayers int32) *podexecv1.PullImageResponse {
	p := &podexecv1.PullProgress{DoneBytes: done, DoneLayers: doneLayers}
	if total >= 0 {
		p.TotalBytes, p.TotalLayers = &total, &totalLayers
	}
	return pullMessage(&podexecv1.ImagePull{Image: "app:1", StartedTime: podctltest.Before(0), Progress: p})
}

func pullMessage(p *podexecv1.ImagePull) *podexecv1.PullImageResponse {
	return &podexecv1.PullImageResponse{Event: &podexecv1.PullImageResponse_Pull{Pull: p}}
}

func examplePull() []*podexecv1.PullImageResponse {
	return []*podexecv1.PullImageResponse{
		pullMessage(&podexecv1.ImagePull{Image: "app:1"}), pullMessage(&podexecv1.ImagePull{Image: "app:1", StartedTime: podctltest.Before(0)}),
		started(5_000_000, -1, 1, 0), started(215_000_000, 500_000_000, 3, 7), started(215_000_000, 500_000_000, 3, 7), started(500_000_000, 500_000_000, 7, 7),
		{Event: &podexecv1.PullImageResponse_Pulled{Pulled: &podexecv1.PulledImage{Id: imageID("a"), SizeBytes: 5}}},
	}
}

// Without a terminal each change is a line on standard error, and the ID is on standard output.
func TestImagesPull(t *testing.T) {
	const lines = `podctl: app:1: queued
podctl: app:1: pulling
podctl: app:1: 5MB, 1 layers
podctl: app:1: 43%, 215MB of 500MB, 3 of 7 layers
podctl: app:1: 100%, unpacking 500MB, 7 layers
`
	for args, want := range map[string]struct{ stdout, stderr string }{
		"":                {imageID("a") + "\n", lines},
		"-q":              {imageID("a") + "\n", ""},
		"--quiet -o json": {"{\n    \"id\": \"" + imageID("a") + "\",\n    \"sizeBytes\": 5\n}\n", ""},
	} {
		n := newNode(t)
		f := &imagePodexecd{pulls: examplePull()}
		n.withImages(f)
		code := n.run(t.Context(), append([]string{"images", "pull", "app:1"}, strings.Fields(args)...)...)
		if code != exitOK || n.stdout.String() != want.stdout || n.stderr.String() != want.stderr || f.pulled != "app:1" {
			t.Errorf("pull %s: exit code %d, pulled %s, stdout:\n%s\nstderr:\n%s", args, code, f.pulled, n.stdout, n.stderr)
		}
	}
}

// On a terminal there is one line with a bar, which isn't wider than the terminal.
func TestPullBar(t *testing.T) {
	var out strings.Builder
	width := 80
	p := &pullProgress{out: &out, image: "app:1", width: func() int { return width }}
	for i, m := range examplePull() {
		if i == 6 {
			break
		}
		if i == 5 {
			width = 40
		}
		p.show(m.GetPull())
	}
	p.end()
	want := "\rapp:1: queued\x1b[K" + "\rapp:1: pulling\x1b[K" + "\rapp:1: 5MB, 1 layers\x1b[K" +
		"\r[============                  ] 43%, 215MB of 500MB, 3 of 7 layers app:1\x1b[K" +
		"\r[==============================] 100%, \x1b[K" + "\n"
	if out.String() != want {
		t.Errorf("%q\nwant\n%q", out.String(), want)
	}
	_, program := pseudoterminal(t)
	if w := widthOf(program); w == nil || w() < 1 {
		t.Error("the terminal has no width")
	}
	if widthOf(&out) != nil {
		t.Error("a buffer is taken for a terminal")
	}
}

// A pull that fails, one that podexecd refuses, and one that is interrupted.
func TestImagesPullFails(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"missing":       {status.Error(codes.NotFound, `pull image "app:1": not found`), "podctl: pull image \"app:1\": not found\n"},
		"the wrong key": {status.Error(codes.FailedPrecondition, "401\x1b[2J"), "podctl: 401\\x1b[2J\n"},
		"refused":       {status.Error(codes.PermissionDenied, "it takes the role operator"), "refuses you: it takes the role operator"},
		"too many":      {status.Error(codes.ResourceExhausted, "16 images are being pulled"), "16 images are being pulled"},
		"no result":     {nil, "ended the pull without a result"},
	} {
		n := newNode(t)
		n.withImages(&imagePodexecd{pullErr: tc.err})
		code := n.run(t.Context(), "images", "pull", "app:1")
		if code != exitFailed || !strings.Contains(n.stderr.String(), tc.want) || n.stdout.String() != "" {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", name, code, n.stdout, n.stderr)
		}
	}
	n := newNode(t)
	f := &imagePodexecd{pulls: examplePull()[:2]}
	n.withImages(f)
	interrupt := n.start("images", "pull", "app:1")
	n.stderr.await(t, "app:1: pulling")
	if code := interrupt(); code != exitFailed || !strings.HasSuffix(n.stderr.String(), "podctl: interrupted\n") {
		t.Errorf("interrupted: exit code %d, stderr %q", code, n.stderr)
	}
	for _, args := range []string{"images pull", "images pull a b", "images x", "images list a", "images prune a"} {
		n := newNode(t)
		if code := n.run(context.Background(), strings.Fields(args)...); code != exitUsage {
			t.Errorf("%s: exit code %d, stderr %q", args, code, n.stderr)
		}
	}
}

// What an image's author or the runtime writes reaches no terminal as it is.
func TestHostileImages(t *testing.T) {
	hostile := podctltest.Hostile
	image := &podexecv1.Image{Id: hostile, Tags: []string{hostile}, Digests: []string{hostile}, UsedBy: []*podconfigv1.PodRef{{Namespace: hostile, Name: hostile}}}
	f := &imagePodexecd{
		images:  []*podexecv1.Image{image},
		pulls:   []*podexecv1.PullImageResponse{pullMessage(&podexecv1.ImagePull{Image: hostile})},
		pullErr: status.Error(codes.NotFound, strings.ToValidUTF8(hostile, "")),
		prune: func(*podexecv1.PruneImagesRequest) (*podexecv1.PruneImagesResponse, error) {
			return &podexecv1.PruneImagesResponse{Images: []*podexecv1.Image{image}, Failures: []*podexecv1.PruneFailure{{Image: image, Message: hostile}}}, nil
		},
		stats: []*podexecv1.GetStatsResponse{{
			Node: &podexecv1.NodeStats{Name: hostile},
			Pods: []*podexecv1.PodStats{{Ref: &podconfigv1.PodRef{Namespace: hostile, Name: hostile}, Containers: []*podexecv1.ContainerStats{{Name: hostile}}}},
		}},
	}
	for _, command := range []string{"images", "images -o wide", "images -o json", "images -o yaml", "images prune --yes", "top pods", "top pods --containers", "top node", "top node -o yaml"} {
		n := newNode(t)
		n.withImages(f)
		n.run(t.Context(), strings.Fields(command)...)
		podctltest.CheckHarmless(t, command, n.stdout.String()+n.stderr.String())
	}
	n := newNode(t)
	n.withImages(f)
	n.run(t.Context(), "images", "pull", hostile)
	podctltest.CheckHarmless(t, "pull", n.stdout.String()+n.stderr.String())
}

// -l leaves the images of the pods that match, by podconfigd's labels; without podconfigd none is shown as if it matched.
func TestImagesOfSelectedPods(t *testing.T) {
	web := &podconfigv1.PodRef{Namespace: "default", Name: "web", Uid: "1"}
	db := &podconfigv1.PodRef{Namespace: "default", Name: "db", Uid: "2"}
	n := newNode(t)
	n.withImages(&imagePodexecd{images: []*podexecv1.Image{
		{Tags: []string{"localhost/web:1"}, UsedBy: []*podconfigv1.PodRef{web}},
		{Tags: []string{"localhost/db:1"}, UsedBy: []*podconfigv1.PodRef{db}},
		{Tags: []string{"localhost/both:1"}, UsedBy: []*podconfigv1.PodRef{db, web}},
		{Tags: []string{"localhost/none:1"}},
	}})
	if code := n.run(t.Context(), "images", "-l", "app=web"); code != exitFailed || n.stdout.String() != "" || !strings.Contains(n.stderr.String(), "find the pods that match app=web") {
		t.Errorf("without podconfigd: exit code %d, %q, %q", code, n.stdout, n.stderr)
	}
	config := &fakePodconfigd{pods: []*podconfigv1.Pod{{Ref: web}}}
	n.podconfigd(config)
	for _, args := range []string{"images", "images list"} {
		n.stdout = newScreen()
		code := n.run(t.Context(), append(strings.Fields(args), "-l", "app=web", "--no-headers")...)
		var names []string
		for line := range strings.Lines(n.stdout.String()) {
			names = append(names, strings.Fields(line)[0])
		}
		if code != exitOK || strings.Join(names, " ") != "localhost/web localhost/both" {
			t.Errorf("%s: exit code %d, images %v, stderr:\n%s", args, code, names, n.stderr)
		}
	}
	if got := config.listings[0].GetFilter().GetLabelSelector(); got != "app=web" {
		t.Errorf("podconfigd is asked for %q", got)
	}
}
