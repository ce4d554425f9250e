package cluster

import (
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/podstream/podstream/internal/execsvc/cluster/apiclient"
	"github.com/podstream/podstream/internal/execsvc/setup/token"
	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/rig"
)

// podexecd gets the tokens of service accounts with its node's own credentials: only for pods on the node.
func TestTokens(t *testing.T) {
	admin := plane.client(t)
	const node = "tokens"
	config := plane.ClientConfig(plane.URL, rig.Get(plane.Authority.Issue("system:node:"+node, "system:nodes", time.Now().Add(control.CertificateLife)))(t))
	httpClient := rig.Get(rest.HTTPClientFor(config))(t)
	defer httpClient.CloseIdleConnections()
	tokens := token.New(token.Config{Requests: rig.Get(apiclient.New(config))(t).CreateToken})
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "builder"}}
	rig.Get(admin.CoreV1().ServiceAccounts(namespace).Create(t.Context(), account, metav1.CreateOptions{}))(t)
	want := &corev1.ServiceAccountTokenProjection{Audience: "vault", Path: "token"}
	as := func(pod *corev1.Pod) {
		pod.Spec.ServiceAccountName = account.Name
		projected := &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ServiceAccountToken: want}}}
		pod.Spec.Volumes = []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Projected: projected}}}
	}
	here, there := createOn(t, node, admin, "here", as), createOn(t, "elsewhere", admin, "there", as)
	check(t, "the token of a pod's account names the account, the pod and the audience", func(t *testing.T) {
		var got []byte
		// The authorizer receives the pod through a separate watch.
		deadline := time.Now().Add(control.Bound)
		for err := error(nil); got == nil; {
			if got, err = tokens.Token(t.Context(), here, want); err != nil && (!strings.Contains(err.Error(), "forbidden") || time.Now().After(deadline)) {
				t.Fatal(err)
			}
		}
		review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: string(got), Audiences: []string{"vault"}}}
		status := rig.Get(admin.AuthenticationV1().TokenReviews().Create(t.Context(), review, metav1.CreateOptions{}))(t).Status
		extra := status.User.Extra["authentication.kubernetes.io/pod-uid"]
		if !status.Authenticated || status.User.Username != "system:serviceaccount:default:builder" || !slices.Equal(extra, []string{string(here.UID)}) {
			t.Errorf("the token is that of %+v", status)
		}
		if again, err := tokens.Token(t.Context(), here, want); err != nil || string(again) != string(got) {
			t.Errorf("asked again there is another one, or %v", err)
		}
	})
	check(t, "a pod of another node gets none", func(t *testing.T) {
		if got, err := tokens.Token(t.Context(), there, want); err == nil {
			t.Errorf("there is one of %d bytes", len(got))
		}
	})
	check(t, "a pod that is gone gets none", func(t *testing.T) {
		vanish(t, admin, here.Name)
		vanish(t, admin, there.Name)
		tokens.Drop(here.UID)
		if got, err := tokens.Token(t.Context(), here, want); err == nil {
			t.Errorf("there is one of %d bytes", len(got))
		}
	})
}
