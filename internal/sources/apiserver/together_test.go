package apiserver

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/certtest"
	"github.com/podstream/podstream/internal/logtest"
	"github.com/podstream/podstream/internal/sources"
	"github.com/podstream/podstream/internal/sources/apiserver/apitest"
)

func forbidden(what string) *apitest.Reply {
	return apitest.Fail(http.StatusForbidden, metav1.StatusReasonForbidden, what+" is forbidden")
}

// TestOneNodeListsNoNamespace: a node's role allows single objects only, so a Source of one node doesn't try others.
func TestOneNodeListsNoNamespace(t *testing.T) {
	server := apitest.New(t, apitest.Config{CA: certtest.NewCA(t, "cluster")})
	keys, want := putMany(server, 20, configKey)
	f := followBy(t, newSource(t, Config{RESTConfig: server.RESTConfig(apitest.Identity{}), WatchSecrets: WatchNamespace}))
	f.wanted <- keys
	f.await(t, want)
	server.AwaitWatches("configmaps", len(keys))
	for _, r := range server.View().Requests {
		if r.Resource == "configmaps" && r.FieldSelector == "" {
			t.Errorf("a request of more than one object: %+v", r)
		}
	}
}

// TestSecondObjectOfANamespace: one object has a watch of its own; with the second one both have that of the namespace. What
// was reported stays meanwhile.
func TestSecondObjectOfANamespace(t *testing.T) {
	server := apitest.New(t, apitest.Config{CA: certtest.NewCA(t, "cluster")})
	server.Put(newConfigMap("a", "1"), newConfigMap("b", "1"))
	f := followBy(t, gateway(t, server, Config{}))
	f.wanted <- []sources.ObjectKey{configKey("a")}
	f.next(1)
	server.AwaitWatches("configmaps", 1)
	if w := server.View().Watches[0]; w.FieldSelector != "metadata.name=a" {
		t.Errorf("the watch of one object is %+v", w)
	}
	f.wanted <- []sources.ObjectKey{configKey("a"), configKey("b")}
	f.await(t, map[string]string{"a": "1", "b": "1"})
	server.Await("one watch of the namespace", func(v apitest.View) bool { return len(v.Watches) == 1 && v.Watches[0].Metadata })
	server.Put(newConfigMap("a", "2"))
	f.await(t, map[string]string{"a": "2", "b": "1"})
	f.neverMissing(t)
}

func (f *following) neverMissing(t *testing.T) {
	t.Helper()
	all, _ := f.all()
	for _, r := range all {
		if r.object == nil {
			t.Errorf("%s was reported missing, which always existed", r.key.Name)
		}
	}
}

// TestRefusedNamespace: if the role doesn't allow to list a namespace, to watch it, or to read an object without a selector, its
// objects have watches of their own. Once the role allows it, they are watched together. What was reported stays.
func TestRefusedNamespace(t *testing.T) {
	for name, refuses := range map[string]func(apitest.Request) bool{
		"list":  func(r apitest.Request) bool { return isList(r) && r.FieldSelector == "" },
		"watch": func(r apitest.Request) bool { return isWatch(r) && r.FieldSelector == "" },
		"get":   isGet,
	} {
		t.Run(name, func(t *testing.T) {
			server := apitest.New(t, apitest.Config{CA: certtest.NewCA(t, "cluster")})
			server.Put(newConfigMap("a", "1"), newConfigMap("b", "1"))
			server.Answer(func(r apitest.Request) *apitest.Reply {
				if r.Resource == "configmaps" && refuses(r) {
					return forbidden("configmaps")
				}
				return nil
			})
			log := &logtest.Buffer{}
			s := gateway(t, server, Config{Logger: slog.New(slog.NewTextHandler(log, nil))})
			f := followBy(t, s)
			f.wanted <- []sources.ObjectKey{configKey("a"), configKey("b")}
			byName := func(v apitest.View) bool {
				return len(v.Watches) == 2 && v.Watches[0].FieldSelector != "" && v.Watches[1].FieldSelector != ""
			}
			server.Await("a watch of each object", byName)
			server.Put(newConfigMap("a", "2"))
			f.await(t, map[string]string{"a": "2", "b": "1"})
			if n := strings.Count(strings.Join(log.Lines(), "\n"), "watched one by one"); n != 1 {
				t.Errorf("it was logged %d times that they are watched one by one", n)
			}
			server.Answer(nil)
			server.Await("one watch of the namespace", func(v apitest.View) bool { return len(v.Watches) == 1 && v.Watches[0].Metadata })
			server.Put(newConfigMap("b", "2"))
			f.await(t, map[string]string{"a": "2", "b": "2"})
			f.neverMissing(t)
		})
	}
}

// TestUndecodableNamespace: a server that can't list a namespace, as it can't decode one of its objects, is read one by one. The
// objects that it can decode don't wait for that.
func TestUndecodableNamespace(t *testing.T) {
	server := apitest.New(t, apitest.Config{CA: certtest.NewCA(t, "cluster")})
	server.Put(newConfigMap("a", "1"), newConfigMap("broken", "1"))
	server.Answer(func(r apitest.Request) *apitest.Reply {
		if r.Resource == "configmaps" && (isList(r) && r.FieldSelector == "" || r.Name == "broken" || r.FieldSelector == "metadata.name=broken") {
			return apitest.Fail(http.StatusInternalServerError, metav1.StatusReasonInternalError, "no matching key was found for the AES transformer")
		}
		return nil
	})
	f := followBy(t, gateway(t, server, Config{}))
	f.wanted <- []sources.ObjectKey{configKey("a"), configKey("broken")}
	f.await(t, map[string]string{"a": "1"})
	server.Await("a watch of the object", func(v apitest.View) bool {
		return slices.ContainsFunc(v.Watches, func(r apitest.Request) bool { return r.FieldSelector == "metadata.name=a" })
	})
	server.Put(newConfigMap("a", "2"))
	f.await(t, map[string]string{"a": "2"})
}
