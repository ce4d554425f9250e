package apiserver

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/certtest"
	"github.com/podstream/podstream/internal/clusteruid"
	"github.com/podstream/podstream/internal/logtest"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources"
	"github.com/podstream/podstream/internal/sources/apiserver/apitest"
)

// service returns the Service by whose UID a cluster is known.
func service(uid types.UID) *v1.Service {
	return &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: clusteruid.Namespace, Name: clusteruid.Service, UID: uid}}
}

// ofCluster returns a Source that stores the cluster in the file, and probes often.
func ofCluster(t *testing.T, server *apitest.Server, file string, more ...func(*Config)) *Source {
	t.Helper()
	cfg := Config{RESTConfig: server.RESTConfig(apitest.Identity{}), ClusterFile: file}
	for _, change := range more {
		change(&cfg)
	}
	s := newSource(t, cfg)
	s.probeInterval = 5 * time.Millisecond
	return s
}

// awaitRefused waits for a set whose error has all the texts, and then until the server was listed three more times. It
// fails if a set since then has no error.
func awaitRefused(t *testing.T, server *apitest.Server, r *reading, after int, texts ...string) (at int) {
	t.Helper()
	_, at = r.await("a refusal with "+fmt.Sprint(texts), after, func(s manifest.Set) bool {
		for _, text := range texts {
			if s.Err == nil || !strings.Contains(s.Err.Error(), text) {
				return false
			}
		}
		return true
	})
	isListOfPods := func(r apitest.Request) bool { return isList(r) && isOfPods(r) }
	before := server.View().Answered(isListOfPods)
	server.Await("three more lists", func(v apitest.View) bool { return v.Answered(isListOfPods) >= before+3 })
	sets, _ := r.all()
	for _, set := range sets[at:] {
		if set.Err == nil {
			t.Fatalf("a set was handed over after the refusal: %s", describe(set))
		}
	}
	return len(sets)
}

// TestAnotherClusterChangesNothing: once another cluster answers at the server's address, with no pods or with others, its
// answers remove and add nothing, and the reason names both clusters. It is so after a restart, too.
func TestAnotherClusterChangesNothing(t *testing.T) {
	for name, test := range map[string]struct {
		tls  bool
		mode apitest.WatchListMode
	}{
		"streaming lists": {false, apitest.WatchListServed}, "lists": {false, apitest.WatchListForbidden}, "HTTP/2": {true, apitest.WatchListServed},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := apitest.Config{}
			if test.tls {
				cfg.CA = certtest.NewCA(t, "cluster")
			}
			server, file := apitest.New(t, cfg), filepath.Join(t.TempDir(), "cluster.json")
			server.WatchList(test.mode)
			server.Put(newPod("a"), newPod("b"))
			ours := server.Cluster()
			r := start(t, ofCluster(t, server, file))
			_, at := r.awaitPods(0, "ns/a", "ns/b")
			server.ReplaceStore()
			at = awaitRefused(t, server, r, at, string(ours), string(server.Cluster()), "is of another cluster", file)
			server.Put(newPod("foreign"))
			awaitRefused(t, server, r, at-1)
			r.stop()
			awaitRefused(t, server, start(t, ofCluster(t, server, file)), 0, string(ours), "is of another cluster")
		})
	}
}

// TestStoreReplacedBehindTheWatch: the check beside the watch finds that the server's store was replaced although the
// connection and the watch are as before. Nothing more of the watch is used.
func TestStoreReplacedBehindTheWatch(t *testing.T) {
	server := apitest.New(t, apitest.Config{CA: certtest.NewCA(t, "cluster")})
	server.Put(newPod("a"))
	r := start(t, ofCluster(t, server, ""))
	_, at := r.awaitPods(0, "ns/a")
	server.AwaitWatches("pods", 1)
	server.Put(service("another"))
	at = awaitRefused(t, server, r, at, "is of another cluster")
	server.Put(newPod("foreign"))
	server.Delete(newPod("a"))
	awaitRefused(t, server, r, at-1)
}

// TestSameClusterAtAnotherAddress: the UID decides, and not the address.
func TestSameClusterAtAnotherAddress(t *testing.T) {
	before, now, file := apitest.New(t, apitest.Config{}), apitest.New(t, apitest.Config{}), filepath.Join(t.TempDir(), "cluster.json")
	r := start(t, ofCluster(t, before, file))
	r.awaitPods(0)
	r.stop()
	now.Put(service(before.Cluster()), newPod("a"))
	s := ofCluster(t, now, file)
	start(t, s).awaitPods(0, "ns/a")
	if got := s.Cluster(); got != before.Cluster() {
		t.Errorf("the cluster is %q, want %q", got, before.Cluster())
	}
}

// TestClusterThatIsNotShown: with a known cluster a server that doesn't show its own changes nothing. It does again once
// it shows the same. Without a known one it is used, and its cluster is known as soon as it is shown.
func TestClusterThatIsNotShown(t *testing.T) {
	server, file := apitest.New(t, apitest.Config{}), filepath.Join(t.TempDir(), "cluster.json")
	ours := server.Cluster()
	server.Delete(service(""))
	server.Put(newPod("a"))
	s := ofCluster(t, server, file)
	r := start(t, s)
	_, at := r.awaitPods(0, "ns/a")
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) || s.Cluster() != "" {
		t.Errorf("the cluster is %q, its file: %v; want none", s.Cluster(), err)
	}
	server.Put(service(ours))
	for s.Cluster() == "" {
		_, at = r.awaitPods(at, "ns/a") // A set comes with each probe.
	}
	server.Delete(service(""))
	at = awaitRefusedByProbe(t, r, at)
	server.Delete(newPod("a"))
	server.DropConnections()
	at = awaitRefused(t, server, r, at-1)
	server.Put(service(ours))
	r.awaitPods(at)
}

func awaitRefusedByProbe(t *testing.T, r *reading, after int) (at int) {
	t.Helper()
	_, at = r.await("a refusal", after, func(s manifest.Set) bool { return s.Err != nil && strings.Contains(s.Err.Error(), "doesn't show") })
	return at
}

// TestForbiddenCluster: without the right to read the Service, the server is used as it is, and isn't asked at each probe.
func TestForbiddenCluster(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	server.Answer(func(r apitest.Request) *apitest.Reply {
		if !isCheck(r) {
			return nil
		}
		return apitest.Fail(403, metav1.StatusReasonForbidden, `services "kubernetes" is forbidden`)
	})
	server.Put(newPod("a"))
	log := &logtest.Buffer{}
	r := start(t, ofCluster(t, server, "", func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(log, nil)) }))
	r.awaitPods(0, "ns/a")
	server.Await("probes", func(v apitest.View) bool { return v.Answered(isProbe) >= 5 })
	// A probe that began before the list's check was answered asks too.
	if n := server.View().Answered(isCheck); n < 1 || n > 2 {
		t.Errorf("the server was asked %d times for what it refuses, want once with the list, and not with each probe", n)
	}
	if lines := log.Lines(); len(lines) != 1 || !strings.Contains(lines[0], "doesn't show which cluster") || !strings.Contains(lines[0], "is forbidden") {
		t.Errorf("the log is\n%s", strings.Join(lines, "\n"))
	}
}

// TestServiceMadeAgain: a Service that was deleted and made again has another UID. The cluster is the same if the server
// has a pod that is known.
func TestServiceMadeAgain(t *testing.T) {
	server, file := apitest.New(t, apitest.Config{}), filepath.Join(t.TempDir(), "cluster.json")
	server.Put(withUID(newPod("a"), "1"), withUID(newPod("b"), "2"))
	known := func(c *Config) { c.Known = func() []types.UID { return []types.UID{"2"} } }
	s := ofCluster(t, server, file, known)
	r := start(t, s)
	_, at := r.awaitPods(0, "ns/a", "ns/b")
	server.Put(service("made-again"))
	// A set comes with each probe. One with an error, as the watch doesn't show the pods, may come before.
	for s.Cluster() != "made-again" {
		_, at = r.awaitPods(at, "ns/a", "ns/b")
	}
	r.awaitPods(at, "ns/a", "ns/b")
	r.stop()
	if stored, err := (&record{path: file}).read(); err != nil || stored != "made-again" {
		t.Errorf("%q is stored: %v; want the UID of the new Service", stored, err)
	}
	// A pod of the known name with another UID is no sign.
	server.Put(service("another"), withUID(newPod("b"), "3"))
	awaitRefused(t, server, start(t, ofCluster(t, server, file, known)), 0, "is of another cluster")
}

// TestConfirmation: an operator confirms another cluster by the removal of the file, or by its UID. The file has the new
// one then.
func TestConfirmation(t *testing.T) {
	server, file := apitest.New(t, apitest.Config{}), filepath.Join(t.TempDir(), "cluster.json")
	server.Put(newPod("a"))
	r := start(t, ofCluster(t, server, file))
	_, at := r.awaitPods(0, "ns/a")
	server.ReplaceStore()
	at = awaitRefused(t, server, r, at, "is of another cluster")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	r.awaitPods(at)
	r.stop()
	server.ReplaceStore()
	server.Put(newPod("b"))
	start(t, ofCluster(t, server, file, func(c *Config) { c.ClusterUID = server.Cluster() })).awaitPods(0, "ns/b")
	if stored, err := (&record{path: file}).read(); err != nil || stored != server.Cluster() {
		t.Errorf("%q is stored: %v; want %q", stored, err, server.Cluster())
	}
}

// TestConfiguredCluster: no other cluster than the configured one is used, also at the first start. Neither the file nor
// its removal changes that.
func TestConfiguredCluster(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	server.Put(newPod("a"))
	r := start(t, ofCluster(t, server, filepath.Join(t.TempDir(), "cluster.json"), func(c *Config) { c.ClusterUID = "configured" }))
	awaitRefused(t, server, r, 0, "configured", string(server.Cluster()))
}

// TestDamagedClusterFile: a file without a UID is an error until it is removed.
func TestDamagedClusterFile(t *testing.T) {
	for name, content := range map[string]string{
		"empty": "", "no JSON": "{", "no UID": `{"uid":""}`, "a long UID": `{"uid":"` + strings.Repeat("a", 200) + `"}`,
		"a large file": `{"uid":"a"}` + strings.Repeat(" ", maxRecord),
	} {
		t.Run(name, func(t *testing.T) {
			server, file := apitest.New(t, apitest.Config{}), filepath.Join(t.TempDir(), "cluster.json")
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			r := start(t, ofCluster(t, server, file))
			at := awaitRefused(t, server, r, 0, file)
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			r.awaitPods(at)
		})
	}
}

// TestLostDirectoryConfirmsNothing: if the file is gone together with its directory, no operator has removed it.
func TestLostDirectoryConfirmsNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "root")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	server := apitest.New(t, apitest.Config{})
	server.Put(newPod("a"))
	r := start(t, ofCluster(t, server, filepath.Join(dir, "cluster.json")))
	_, at := r.awaitPods(0, "ns/a")
	// Not removed: the source may be writing a file into it.
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	server.ReplaceStore()
	awaitRefused(t, server, r, at, "is of another cluster")
}

// TestObjectsOfAnotherCluster: its ConfigMaps and Secrets aren't used, and that it doesn't have them isn't, either.
func TestObjectsOfAnotherCluster(t *testing.T) {
	for _, way := range []ChangeDetection{Watch, Get} {
		t.Run(string(way), func(t *testing.T) {
			server := apitest.New(t, apitest.Config{})
			server.Put(newSecret("s", "ours"), newSecret("gone", "ours"))
			s := ofCluster(t, server, "", func(c *Config) { c.ChangeDetection = way })
			s.resync = 5 * time.Millisecond
			f := followBy(t, s)
			f.wanted <- []sources.ObjectKey{secretKey("s"), secretKey("gone")}
			f.next(2)
			// The second cluster has one of them. Its lists and watches begin from an earlier version.
			server.Stop()
			server.ReplaceStore()
			server.Put(newSecret("s", "theirs"))
			server.Start()
			isRead := func(r apitest.Request) bool { return r.Resource == "secrets" && r.Verb != "watch" }
			before := server.View().Answered(isRead)
			server.Await("more readings", func(v apitest.View) bool { return v.Answered(isRead) >= before+6 })
			if all, _ := f.all(); len(all) != 2 {
				t.Errorf("reported %+v; want the first cluster's two Secrets", all)
			}
		})
	}
}
