package usage

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/rig"
)

// account creates a service account that may get and update these resources of all nodes, and returns its
// token.
func (a *attackers) account(t *testing.T, name string, resources ...string) string {
	t.Helper()
	accounts := here.Client.CoreV1().ServiceAccounts(a.space.name)
	rig.Get(accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))(t)
	if len(resources) > 0 {
		rbac, object := here.Client.RbacV1(), metav1.ObjectMeta{Name: a.space.name + "-" + name}
		rig.Get(rbac.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
			ObjectMeta: object, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: resources, Verbs: []string{"get", "update"}}},
		}, metav1.CreateOptions{}))(t)
		rig.Get(rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: object, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: object.Name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: a.space.name}},
		}, metav1.CreateOptions{}))(t)
		t.Cleanup(func() {
			rig.Must(t, errors.Join(rbac.ClusterRoleBindings().Delete(context.Background(), object.Name, metav1.DeleteOptions{}),
				rbac.ClusterRoles().Delete(context.Background(), object.Name, metav1.DeleteOptions{})))
		})
	}
	return rig.Get(accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{}))(t).Status.Token
}

// ask sends a request with a certificate and its key in one text. A failed handshake counts as 401.
func (a *attackers) ask(t *testing.T, method, path string, certificate []byte) int {
	t.Helper()
	status, err := a.request(method, path, certificate, "", nil)
	if err != nil && strings.Contains(err.Error(), "tls: ") {
		return http.StatusUnauthorized
	}
	return rig.Get(status, err)(t)
}

func (a *attackers) request(method, path string, certificate []byte, token string, header http.Header) (int, error) {
	config := &tls.Config{InsecureSkipVerify: true}
	if certificate != nil {
		pair, err := tls.X509KeyPair(certificate, certificate)
		if err != nil {
			return 0, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequest(method, "https://"+a.loopback()+path, nil)
	if err != nil {
		return 0, err
	}
	for key, values := range header {
		r.Header[key] = values
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := transport.RoundTrip(r)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// raw sends a text and returns the answer, even if it is incomplete.
func (a *attackers) raw(t *testing.T, text string) string {
	t.Helper()
	conn := rig.Get(tls.Dial("tcp", a.loopback(), &tls.Config{InsecureSkipVerify: true}))(t)
	defer conn.Close()
	rig.Must(t, conn.SetDeadline(time.Now().Add(control.Bound)))
	_, _ = io.WriteString(conn, text) // the server may not read it to the end
	answer, _ := io.ReadAll(bufio.NewReader(conn))
	return string(answer)
}

func statusOf(answer string) int {
	found := regexp.MustCompile(`^HTTP/1\.[01] (\d{3}) `).FindStringSubmatch(answer)
	if found == nil {
		return 0
	}
	status, _ := strconv.Atoi(found[1]) // three digits
	return status
}

// neighbour creates another namespace. It is removed when the test ends.
func (s *space) neighbour(t *testing.T) string {
	t.Helper()
	name := s.name + "-other"
	rig.Get(here.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		rig.Must(t, here.Client.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{}))
	})
	return name
}

// use is the present and the peak memory of a process, in bytes.
type use struct{ now, peak int }

func memory(t *testing.T, pid int) use {
	t.Helper()
	status := string(rig.Get(os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status")))(t))
	of := func(name string) int {
		found := regexp.MustCompile(`(?m)^` + name + `:\s+(\d+) kB$`).FindStringSubmatch(status)
		if found == nil {
			t.Fatal(fmt.Errorf("/proc/%d/status has no %s", pid, name))
		}
		return rig.Get(strconv.Atoi(found[1]))(t) << 10
	}
	return use{of("VmRSS"), of("VmHWM")}
}
