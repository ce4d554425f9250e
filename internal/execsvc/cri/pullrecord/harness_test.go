package pullrecord

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/execsvc/cri/image"
	"github.com/podstream/podstream/internal/execsvc/decide/imageaccess"
)

// node is a root directory, with the Records of the last start of podexecd.
type node struct {
	*Records
	t        *testing.T
	dir      string
	log      bytes.Buffer
	registry *prometheus.Registry
}

func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{t: t, dir: t.TempDir()}
	n.restart()
	return n
}

// restart is the end of podexecd, of whatever kind, and its next start.
func (n *node) restart() {
	n.t.Helper()
	n.registry = prometheus.NewRegistry()
	r, err := New(Config{
		RootDir: n.dir, Metrics: n.registry, Logger: slog.New(slog.NewTextHandler(&n.log, nil)),
		Clock: testingclock.NewFakePassiveClock(time.Date(2024, 10, 21, 12, 26, 40, 0, time.UTC)),
	})
	if err != nil {
		n.t.Fatal(err)
	}
	n.Records = r
}

const (
	app = "registry.example/team/app:1"
	id  = "sha256:1111"
)

// secretOf returns the login of a tenant, from its own pull secret.
func secretOf(tenant string) imageaccess.Login {
	return imageaccess.Login{Username: tenant, Secret: &imageaccess.Secret{UID: "uid-" + tenant, Namespace: tenant, Name: "pull", CredentialHash: "hash-" + tenant}}
}

func (n *node) intend(name, before string) image.Intent {
	n.t.Helper()
	i, err := n.Intend(name, before)
	if err != nil {
		n.t.Fatal(err)
	}
	return i
}

// pull is a whole pull.
func (n *node) pull(name, id string, logins ...imageaccess.Login) {
	n.t.Helper()
	if err := n.intend(name, "").Pulled(pulledAs(name, id), logins); err != nil {
		n.t.Fatal(err)
	}
}

// pulledAs returns an image as the runtime has it after a pull.
func pulledAs(name, id string) *runtimeapi.Image {
	_, full, _ := image.Canonical(name)
	return &runtimeapi.Image{Id: id, RepoTags: []string{full}}
}

// may reports whether a pod with these logins may use the image by that name. tags are the runtime's names of it.
func (n *node) may(name, id string, tags []string, logins ...imageaccess.Login) bool {
	n.t.Helper()
	repository, full, err := image.Canonical(name)
	if err != nil {
		n.t.Fatal(err)
	}
	return n.Check(imageaccess.Use{
		ID: id, Repository: repository, Name: full, Given: name, Names: tags, AccountKnown: true,
		Secrets: func() []imageaccess.Login { return logins },
	}).Access == imageaccess.Allowed
}

// list is a round of image garbage collection in which the runtime has these images, "ID TAG...".
func (n *node) list(images ...string) {
	done := n.Listing()
	done(parse(images))
}

func parse(images []string) []*runtimeapi.Image {
	var list []*runtimeapi.Image
	for _, text := range images {
		words := strings.Fields(text)
		list = append(list, &runtimeapi.Image{Id: words[0], RepoTags: words[1:]})
	}
	return list
}

// wantFiles compares the numbers of files, and the metrics.
func (n *node) wantFiles(intents, records int) {
	n.t.Helper()
	for dir, want := range map[string]int{n.pulling: intents, n.pulled: records} {
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != want {
			n.t.Errorf("%s has %d files (%v); want %d", dir, len(entries), err, want)
		}
	}
	families, err := n.registry.Gather()
	if err != nil {
		n.t.Fatal(err)
	}
	metrics := map[string]int{}
	for _, f := range families {
		metrics[f.GetName()] = int(f.GetMetric()[0].GetGauge().GetValue())
	}
	if got, want := [2]int{metrics["kubelet_imagemanager_ondisk_pullintents"], metrics["kubelet_imagemanager_ondisk_pulledrecords"]},
		[2]int{intents, records}; got != want {
		n.t.Errorf("the metrics are %v; want %v", got, want)
	}
}
