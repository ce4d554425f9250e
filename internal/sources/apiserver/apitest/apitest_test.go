package apitest_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	kwatch "k8s.io/apimachinery/pkg/watch"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/podstream/podstream/internal/certtest"
	"github.com/podstream/podstream/internal/sources/apiserver/apitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clients returns the standard client, once for each encoding.
func clients(t *testing.T, server *apitest.Server) map[string]*typed.CoreV1Client {
	t.Helper()
	found := map[string]*typed.CoreV1Client{}
	for _, media := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		cfg := server.RESTConfig(apitest.Identity{Token: "token"})
		cfg.ContentType, cfg.AcceptContentTypes = media, media
		client, err := typed.NewForConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		found[media] = client
	}
	return found
}

func pod(name, node string, labels map[string]string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: labels}, Spec: v1.PodSpec{NodeName: node}}
}

func TestGetAndList(t *testing.T) {
	server := apitest.New(t, apitest.Config{CA: certtest.NewCA(t, "cluster")})
	elsewhere := pod("b", "n1", nil)
	elsewhere.Namespace = "other"
	server.Put(pod("a", "n1", map[string]string{"app": "x"}), pod("b", "n2", nil), elsewhere,
		&v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}, Data: map[string][]byte{"k": []byte("v")}})
	for media, client := range clients(t, server) {
		t.Run(media, func(t *testing.T) {
			got, err := client.Pods("ns").Get(t.Context(), "a", metav1.GetOptions{})
			if err != nil || got.Spec.NodeName != "n1" || got.UID == "" || got.ResourceVersion == "" {
				t.Errorf("got %+v, %v", got, err)
			}
			if _, err := client.Pods("ns").Get(t.Context(), "gone", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("a pod that doesn't exist: %v", err)
			}
			if s, err := client.Secrets("ns").Get(t.Context(), "s", metav1.GetOptions{}); err != nil || string(s.Data["k"]) != "v" {
				t.Errorf("got %+v, %v", s, err)
			}
			for _, test := range []struct {
				namespace, fields, labels string
				want                      string
			}{
				{"", "", "", "[ns/a ns/b other/b]"},
				{"ns", "", "", "[ns/a ns/b]"},
				{"", "spec.nodeName=n1", "", "[ns/a other/b]"},
				{"", "spec.nodeName!=n1", "", "[ns/b]"},
				{"", "metadata.name=b,metadata.namespace=other", "", "[other/b]"},
				{"", "", "app in (x)", "[ns/a]"},
				{"", "", "!app", "[ns/b other/b]"},
			} {
				list, err := client.Pods(test.namespace).List(t.Context(),
					metav1.ListOptions{FieldSelector: test.fields, LabelSelector: test.labels})
				if err != nil {
					t.Fatal(err)
				}
				var names []string
				for _, p := range list.Items {
					names = append(names, p.Namespace+"/"+p.Name)
				}
				if fmt.Sprint(names) != test.want || list.ResourceVersion != server.Version() {
					t.Errorf("%+v: %v at version %s", test, names, list.ResourceVersion)
				}
			}
			_, err = client.Pods("").List(t.Context(), metav1.ListOptions{FieldSelector: "spec.hostname=x"})
			if !apierrors.IsBadRequest(err) {
				t.Errorf("a field that can't be selected by: %v", err)
			}
		})
	}
}

func TestPagesAreOneSnapshot(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	server.Put(pod("a", "", nil), pod("b", "", nil), pod("c", "", nil))
	pods := clients(t, server)["application/json"].Pods("ns")
	first, err := pods.List(t.Context(), metav1.ListOptions{Limit: 2})
	if err != nil || len(first.Items) != 2 || first.Continue == "" {
		t.Fatalf("the first page is %+v, %v", first, err)
	}
	server.Delete(pod("c", "", nil))
	server.Put(pod("d", "", nil))
	second, err := pods.List(t.Context(), metav1.ListOptions{Limit: 2, Continue: first.Continue})
	if err != nil || len(second.Items) != 1 || second.Items[0].Name != "c" || second.Continue != "" ||
		second.ResourceVersion != first.ResourceVersion {
		t.Errorf("the second page is %+v, %v", second, err)
	}
	server.Compact()
	if _, err := pods.List(t.Context(), metav1.ListOptions{Limit: 2, Continue: first.Continue}); !apierrors.IsResourceExpired(err) {
		t.Errorf("a page of before the compaction: %v", err)
	}
}

func TestWatch(t *testing.T) {
	server := apitest.New(t, apitest.Config{CA: certtest.NewCA(t, "cluster")})
	for media, client := range clients(t, server) {
		t.Run(media, func(t *testing.T) {
			before := server.Put(pod("a", "", nil))
			w, err := client.Pods("").Watch(t.Context(), metav1.ListOptions{
				ResourceVersion: before, FieldSelector: "spec.nodeName=n1", AllowWatchBookmarks: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			server.AwaitWatches("pods", 1)
			server.Put(pod("other", "n2", nil))
			server.Put(pod("a", "n1", nil))
			server.Put(pod("a", "n1", map[string]string{"x": "y"}))
			server.Put(pod("a", "", nil))
			server.Bookmark()
			server.Compact()
			for _, want := range []kwatch.EventType{kwatch.Added, kwatch.Modified, kwatch.Deleted, kwatch.Bookmark} {
				if got := <-w.ResultChan(); got.Type != want {
					t.Fatalf("%s %+v; want %s", got.Type, got.Object, want)
				}
			}
			w.Stop()
			server.AwaitWatches("pods", 0)

			old, err := client.Pods("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: before})
			if err != nil {
				t.Fatal(err)
			}
			defer old.Stop()
			if got := <-old.ResultChan(); got.Type != kwatch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(got.Object)) {
				t.Errorf("a watch of before the compaction has %+v", got)
			}
			_, err = client.RESTClient().Get().Resource("pods").Param("resourceVersion", "99999").MaxRetries(0).Do(t.Context()).Get()
			if !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
				t.Errorf("a list of the future: %v", err)
			}
			old.Stop()
			server.AwaitWatches("pods", 0)
			next, err := strconv.Atoi(server.Version())
			if err != nil {
				t.Fatal(err)
			}
			future, err := client.Pods("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: strconv.Itoa(next + 1)})
			if err != nil {
				t.Fatal(err)
			}
			defer future.Stop()
			server.AwaitWatches("pods", 1)
			server.Put(pod("missed", "", nil))
			server.Put(pod("later", "", nil))
			if got := <-future.ResultChan(); got.Object.(*v1.Pod).Name != "later" {
				t.Errorf("a watch of the future begins with %+v", got.Object)
			}
			future.Stop()
			server.AwaitWatches("pods", 0)
		})
	}
}

func TestAdmitAndAnswer(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	pods := clients(t, server)["application/json"].Pods("ns")
	list := func() error {
		_, err := pods.List(t.Context(), metav1.ListOptions{})
		return err
	}
	if err := list(); err != nil {
		t.Error(err)
	}
	server.Admit("another")
	if err := list(); !apierrors.IsUnauthorized(err) {
		t.Errorf("a stranger: %v", err)
	}
	server.Admit("token")
	server.Answer(func(apitest.Request) *apitest.Reply {
		return apitest.Fail(http.StatusForbidden, metav1.StatusReasonForbidden, "no")
	})
	if err := list(); !apierrors.IsForbidden(err) {
		t.Errorf("a refusal: %v", err)
	}
	view := server.View()
	codes := make([]int, 0, len(view.Requests))
	for _, r := range view.Requests {
		codes = append(codes, r.Code)
	}
	if fmt.Sprint(codes) != "[200 401 403]" || view.Requests[0].User != "token" {
		t.Errorf("the requests are %+v", view.Requests)
	}
}

func TestMetadataOfARestoredStore(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	server.Put(pod("a", "n1", nil))
	before := server.Snapshot()
	v := server.Version()
	server.Put(pod("b", "n1", nil))
	server.Restore(before)
	for _, media := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		cfg := server.RESTConfig(apitest.Identity{})
		client, err := typed.NewForConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		body, err := client.RESTClient().Get().Resource("pods").
			SetHeader("Accept", media+";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		scheme := runtime.NewScheme()
		if err := metav1.AddMetaToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		object, _, err := serializer.NewCodecFactory(scheme).UniversalDeserializer().Decode(body, nil, nil)
		list, ok := object.(*metav1.PartialObjectMetadataList)
		if err != nil || !ok || len(list.Items) != 1 || list.Items[0].Name != "a" || list.Items[0].ResourceVersion != v || list.ResourceVersion != v {
			t.Errorf("%s: the list is %+v, %v", media, object, err)
		}
	}
}
