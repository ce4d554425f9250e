package podctl

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// pruner is a podexecd with the example's images, of which those without users are unused. c can't be removed.
type pruner struct {
	mu    sync.Mutex
	calls []string
}

func (p *pruner) prune(req *podexecv1.PruneImagesRequest) (*podexecv1.PruneImagesResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, fmt.Sprintf("dry run %t, all %t, %d IDs", req.GetDryRun(), req.GetAll(), len(req.GetIds())))
	resp := &podexecv1.PruneImagesResponse{}
	for _, i := range exampleImages()[1:3] {
		switch {
		case len(i.GetTags()) > 0 && !req.GetAll():
		case len(i.GetTags()) > 0 && !req.GetDryRun():
			resp.Failures = append(resp.Failures, &podexecv1.PruneFailure{Image: i, Message: "it is busy"})
		default:
			resp.Images = append(resp.Images, i)
		}
	}
	return resp, nil
}

// Without a terminal nothing is removed unless --yes is given. What is removed is what was shown.
func TestImagesPrune(t *testing.T) {
	const (
		untagged = "IMAGE                       TAG      IMAGE ID        SIZE\nregistry.example:5000/app   <none>   bbbbbbbbbbbbb   500MB\n"
		tagged   = "registry.example:5000/app   3        ccccccccccccc   999B\n"
	)
	for args, want := range map[string]struct {
		code           int
		stdout, stderr string
		calls          []string
	}{
		"": {
			exitFailed, untagged, "podctl: 1 unused images, 500MB\npodctl: nothing was removed: standard input is no terminal, so give --yes to remove these images\n",
			[]string{"dry run true, all false, 0 IDs"},
		},
		"--dry-run": {exitOK, untagged, "podctl: 1 unused images, 500MB\n", []string{"dry run true, all false, 0 IDs"}},
		"--yes": {
			exitOK, untagged, "podctl: 1 unused images, 500MB\npodctl: removed 1 of 1 images, 500MB\n",
			[]string{"dry run true, all false, 0 IDs", "dry run false, all false, 1 IDs"},
		},
		"--all -y": {
			exitFailed, untagged + tagged,
			"podctl: 2 unused images, 500MB\npodctl: removed 1 of 2 images, 500MB\npodctl: image registry.example:5000/app:3 stays: it is busy\n",
			[]string{"dry run true, all true, 0 IDs", "dry run false, all true, 2 IDs"},
		},
	} {
		n, p := newNode(t), &pruner{}
		n.withImages(&imagePodexecd{prune: p.prune})
		code := n.runWith(t.Context(), strings.NewReader("y\n"), append([]string{"images", "prune"}, strings.Fields(args)...)...)
		if code != want.code || n.stdout.String() != want.stdout || n.stderr.String() != want.stderr {
			t.Errorf("prune %s: exit code %d, stdout:\n%s\nstderr:\n%s", args, code, n.stdout, n.stderr)
		}
		if diff := cmp.Diff(want.calls, p.calls); diff != "" {
			t.Errorf("prune %s (-want +got):\n%s", args, diff)
		}
	}
}

// On a terminal it asks. Only yes removes.
func TestImagesPruneAsks(t *testing.T) {
	for answer, removed := range map[string]bool{"y\n": true, "YES\n": true, "n\n": false, "\n": false, "yesterday\n": false} {
		n, p := newNode(t), &pruner{}
		n.withImages(&imagePodexecd{prune: p.prune})
		user, program := pseudoterminal(t)
		if _, err := user.WriteString(answer); err != nil {
			t.Fatal(err)
		}
		code := n.runWith(t.Context(), program, "images", "prune")
		if code != exitOK || (len(p.calls) == 2) != removed || !strings.Contains(n.stderr.String(), "Remove these 1 images? [y/N] ") {
			t.Errorf("%q: exit code %d, calls %v, stderr:\n%s", answer, code, p.calls, n.stderr)
		}
	}
	// Ctrl-C while it asks.
	n, p := newNode(t), &pruner{}
	n.withImages(&imagePodexecd{prune: p.prune})
	user, program := pseudoterminal(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int)
	go func() { done <- n.runWith(ctx, program, "images", "prune") }()
	n.stderr.await(t, "[y/N]")
	cancel()
	if code := <-done; code != exitFailed || len(p.calls) != 1 || !strings.HasSuffix(n.stderr.String(), "interrupted\n") {
		t.Errorf("Ctrl-C: exit code %d, calls %v, stderr:\n%s", code, p.calls, n.stderr)
	}
	// It ends the read.
	if _, err := user.WriteString("\n"); err != nil {
		t.Fatal(err)
	}
}

// There is nothing to remove, it is refused, or it is a document.
func TestImagesPruneResults(t *testing.T) {
	none := func(*podexecv1.PruneImagesRequest) (*podexecv1.PruneImagesResponse, error) {
		return &podexecv1.PruneImagesResponse{}, nil
	}
	many := func(req *podexecv1.PruneImagesRequest) (*podexecv1.PruneImagesResponse, error) {
		return &podexecv1.PruneImagesResponse{Images: exampleImages()[3:], More: true}, nil
	}
	unready := func(*podexecv1.PruneImagesRequest) (*podexecv1.PruneImagesResponse, error) {
		return nil, status.Error(codes.FailedPrecondition, "not all pods of this node are known yet: not ready: api")
	}
	for name, tc := range map[string]struct {
		args           string
		prune          func(*podexecv1.PruneImagesRequest) (*podexecv1.PruneImagesResponse, error)
		code           int
		stdout, stderr string
	}{
		"none":          {"", none, exitOK, "", "no unused images without a tag; --all includes those with a tag\n"},
		"none of all":   {"--all", none, exitOK, "", "no unused images\n"},
		"unready":       {"--all --yes", unready, exitFailed, "", "not ready: api"},
		"more":          {"--dry-run", many, exitOK, "ddddddddddddd", "there are more: run it again after this"},
		"a document":    {"--all --yes -o json", new(pruner).prune, exitFailed, `"message": "it is busy"`, "stays: it is busy"},
		"an empty one":  {"-o json", none, exitOK, `"images": []`, ""},
		"a dry run's":   {"--dry-run -o json", new(pruner).prune, exitOK, `"sizeBytes": 500000000`, ""},
		"not confirmed": {"-o json", new(pruner).prune, exitFailed, "", "give --yes"},
		"without a role": {"", func(*podexecv1.PruneImagesRequest) (*podexecv1.PruneImagesResponse, error) {
			return nil, status.Error(codes.PermissionDenied, "it takes the role operator")
		}, exitFailed, "", "refuses you"},
	} {
		n := newNode(t)
		n.withImages(&imagePodexecd{prune: tc.prune})
		code := n.runWith(t.Context(), strings.NewReader(""), append([]string{"images", "prune"}, strings.Fields(tc.args)...)...)
		if code != tc.code || !strings.Contains(n.stdout.String(), tc.stdout) || !strings.Contains(n.stderr.String(), tc.stderr) {
			t.Errorf("%s: exit code %d, stdout:\n%s\nstderr:\n%s", name, code, n.stdout, n.stderr)
		}
		if tc.stdout == "" && n.stdout.String() != "" {
			t.Errorf("%s: stdout:\n%s", name, n.stdout)
		}
	}
}
