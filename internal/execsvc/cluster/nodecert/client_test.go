package nodecert

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// A kubeconfig with a token is written late, and replaced by one for another cluster, and by an invalid one.
func TestKubeconfigChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, n := newAPI(t), newAPI(t), newNode(t)
		now := a
		c := n.client(a, func(cfg *ClientConfig) {
			cfg.BootstrapKubeconfig = ""
			cfg.Dial = dialOf(func() *api { return now })
		})
		run(t, c.Run)
		client := clientset(t, c)
		is := func(want string) func() bool { return asks(client, want) }
		time.Sleep(time.Hour)
		if n.log.Count("level=WARN") != 0 || n.log.Count("there is no kubeconfig") != 1 {
			t.Errorf("the missing kubeconfig isn't logged once, below the level of a warning")
		}
		n.write(n.kubeconfig(), n.kubeconfigFor(a, clientcmdapi.AuthInfo{Token: "one"}))
		await(t, "requests get through with the token", is("one"))

		// Another cluster has another CA, which the clients of the first cluster don't trust.
		now = b
		a.cut()
		n.write(n.kubeconfig(), n.kubeconfigFor(b, clientcmdapi.AuthInfo{Token: "two"}))
		await(t, "requests get through to the other cluster", is("two"))

		n.write(n.kubeconfig(), []byte("half a kubecon"))
		time.Sleep(time.Hour)
		if !is("two")() {
			t.Error("requests don't succeed with the last valid kubeconfig")
		}
		if n.log.Count("the kubeconfig can't be used") != 1 || strings.Contains(n.log.String(), "half a kubecon") {
			t.Errorf("an invalid kubeconfig isn't logged once, or its content is in the log")
		}
		n.write(n.path("token"), []byte("three"))
		n.write(n.kubeconfig(), n.kubeconfigFor(b, clientcmdapi.AuthInfo{TokenFile: n.path("token")}))
		await(t, "requests get through with the token in a file", is("three"))
		n.write(n.path("token"), []byte("four"))
		await(t, "the next token is taken", is("four"))
		if a.created+b.created != 0 {
			t.Errorf("%d certificates were requested; a client with a token needs none", a.created+b.created)
		}
	})
}

func dialOf(now func() *api) Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return now().dial(ctx, network, address)
	}
}

// A token file may be written after the kubeconfig.
func TestTokenFileComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		n.write(n.kubeconfig(), n.kubeconfigFor(a, clientcmdapi.AuthInfo{TokenFile: n.path("token")}))
		client := clientset(t, n.client(a, func(cfg *ClientConfig) { cfg.BootstrapKubeconfig = "" }))
		if _, err := whoAmI(client); !errors.Is(err, ErrNoServer) {
			t.Errorf("a request without the token: %v; want ErrNoServer", err)
		}
		n.write(n.path("token"), []byte("late"))
		await(t, "requests get through", asks(client, "late"))
	})
}

// The API server's address may have a path, as behind some proxies.
func TestServerWithPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		a.server.Handler = http.StripPrefix("/clusters/c1", a.server.Handler)
		data := n.kubeconfigFor(a, clientcmdapi.AuthInfo{Token: "one"})
		n.write(n.kubeconfig(), bytes.Replace(data, []byte(apiHost+":6443"), []byte(apiHost+":6443/clusters/c1/"), 1))
		if who, err := whoAmI(clientset(t, n.client(a))); who != "one" {
			t.Errorf("the caller is %q, %v", who, err)
		}
	})
}

// An API server's error is read to a limit, however long it is.
func TestLargeError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		cut := make(chan bool, 1)
		a.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			var err error
			for part := make([]byte, 1<<20); err == nil && len(part) > 0; part = part[:len(part)-1<<14] {
				_, err = w.Write(part)
			}
			cut <- err != nil
		})
		n.write(n.kubeconfig(), n.kubeconfigFor(a, clientcmdapi.AuthInfo{Token: "one"}))
		if _, err := whoAmI(clientset(t, n.client(a))); !apierrors.IsForbidden(err) {
			t.Errorf("the error is %v", err)
		}
		if !<-cut {
			t.Error("all 32 MiB of the error were read")
		}
	})
}
