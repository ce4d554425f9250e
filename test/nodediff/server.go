package nodediff

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/test/apiserver"
)

// nodeName is the name of the node.
const nodeName = "node"

// Server is a kube-apiserver and its etcd.
type Server struct {
	Client       kubernetes.Interface
	files        apiserver.Files
	etcd, server *process
}

// StartServer starts both in a new directory, and waits until the API server is ready.
func StartServer(ctx context.Context, dir, programs string) (_ *Server, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	s := &Server{files: apiserver.Files{Dir: dir, Node: nodeName}}
	if err := s.files.Write(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.etcd, err = start(dir, filepath.Join(programs, "etcd"), s.files.EtcdFlags()...); err != nil {
		return s, err
	}
	if s.server, err = start(dir, filepath.Join(programs, "kube-apiserver"), s.files.ServerFlags()...); err != nil {
		return s, err
	}
	if s.Client, err = kubernetes.NewForConfig(&rest.Config{
		Host: apiserver.URL, BearerToken: apiserver.Token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, // Only the test is there.
	}); err != nil {
		return s, err
	}
	return s, await(ctx, 4*time.Minute, "the API server is ready", func(ctx context.Context) error {
		if s.server.ended() || s.etcd.ended() {
			return finalError{fmt.Errorf("a server has ended: %s%s", s.etcd.tail(2000), s.server.tail(2000))}
		}
		if err := s.Client.CoreV1().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
			return err
		}
		_, err := s.Client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
		return err
	})
}

// Close ends both.
func (s *Server) Close() error {
	var errs []error
	for _, p := range []*process{s.server, s.etcd} {
		if p != nil {
			errs = append(errs, p.kill())
		}
	}
	return errors.Join(errs...)
}

// clear removes what an agent and a case have made.
func (s *Server) clear(ctx context.Context) error {
	now, all := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}, metav1.ListOptions{}
	core, errs := s.Client.CoreV1(), []error{}
	for _, namespace := range namespaces {
		errs = append(errs, core.Pods(namespace).DeleteCollection(ctx, now, all), core.Events(namespace).DeleteCollection(ctx, now, all),
			core.Secrets(namespace).DeleteCollection(ctx, now, all))
	}
	return errors.Join(append(errs, core.Nodes().DeleteCollection(ctx, now, all),
		s.Client.CoordinationV1().Leases("kube-node-lease").DeleteCollection(ctx, now, all),
		s.Client.StorageV1().CSINodes().DeleteCollection(ctx, now, all))...)
}

// namespaces are those of the cases' pods.
var namespaces = []string{metav1.NamespaceDefault, metav1.NamespaceSystem}

// finalError is an error after which await asks no more.
type finalError struct{ error }

// await asks until the answer is nil.
func await(ctx context.Context, limit time.Duration, what string, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		last := ask(ctx)
		if last == nil {
			return nil
		}
		if final := (finalError{}); errors.As(last, &final) {
			return fmt.Errorf("wait until %s: %w", what, last)
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("wait until %s, for %v: %w", what, limit, last)
		}
	}
}
