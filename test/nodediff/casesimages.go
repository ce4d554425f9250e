package nodediff

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// hub is the address of the registry, in the guest. Runtimes accept plain HTTP on the loopback interface.
	hub          = "127.0.0.1:5055"
	hubUser      = "puller"
	hubPassword  = "sesame"
	privateName  = hub + "/private/app:v1"
	dockerConfig = `{"auths":{"` + hub + `":{"username":"` + hubUser + `","password":"` + hubPassword + `"}}}`
)

// imageCases are those of a private image.
func imageCases() []*Case {
	cases := []*Case{
		{Name: "private-image", Act: privateImage},
		{Name: "private-image-never-verified", Config: "imagePullCredentialsVerificationPolicy: NeverVerify", Act: privateImage},
		{Name: "private-image-always-verified", Config: "imagePullCredentialsVerificationPolicy: AlwaysVerify", Act: privateImage},
	}
	refused := []string{"event Pod/other Failed", "event Pod/other-after-restart Failed"}
	runs := []string{"pod other status.phase=Running", "pod other-after-restart status.phase=Running"}
	for i, more := range [][]string{refused, runs, refused} {
		cases[i].Wants = append([]string{"pod owner status.phase=Running", "pod same-secret status.phase=Running", "pod same-credentials status.phase=Running"}, more...)
	}
	// An image that no agent has pulled.
	return append(cases,
		&Case{Name: "preloaded-image", Pods: []*v1.Pod{pod("web", "sleep")}, Wants: []string{"pod web status.phase=Running"}},
		&Case{Name: "preloaded-image-always-verified", Config: "imagePullCredentialsVerificationPolicy: AlwaysVerify", Pods: []*v1.Pod{pod("web", "sleep")},
			Wants: []string{"event Pod/web Failed"}},
		&Case{Name: "preloaded-image-allowed", Config: "{imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages, " +
			"preloadedImagesVerificationAllowlist: [localhost/podstream-sample]}", Pods: []*v1.Pod{pod("web", "sleep")},
			Wants: []string{"pod web status.phase=Running"}},
	)
}

// privateImage runs a pod that pulls a private image with a secret, then one without: the image is on the node. A third
// one has the secret too, a fourth the same credentials in another one. After a restart of the agent another pod has none.
func privateImage(ctx context.Context, r *Run) error {
	if err := r.RemoveImage(ctx, privateName); err != nil {
		return err
	}
	for _, name := range []string{"hub", "hub-again"} {
		secret := &v1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Type: v1.SecretTypeDockerConfigJson, Data: map[string][]byte{v1.DockerConfigJsonKey: []byte(dockerConfig)},
		}
		if _, err := r.server.Client.CoreV1().Secrets(metav1.NamespaceDefault).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	steps := []struct{ pod, secret, await string }{
		{"owner", "hub", "pod owner status.phase=Running"}, {"other", "", "event Pod/other BackOff"},
		{"same-secret", "hub", "pod same-secret status.phase=Running"}, {"same-credentials", "hub-again", "pod same-credentials status.phase=Running"},
		{"other-after-restart", "", "event Pod/other-after-restart BackOff"},
	}
	for i, step := range steps {
		if i == len(steps)-1 {
			if err := r.Restart(ctx); err != nil {
				return err
			}
		}
		p := pod(step.pod, "sleep")
		p.Spec.Containers[0].Image = privateName
		if step.secret != "" {
			p.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: step.secret}}
		}
		if err := r.Create(ctx, p); err != nil {
			return err
		}
		wants := []string{step.await}
		if step.secret == "" && r.Case.Name == "private-image-never-verified" {
			wants = []string{"pod " + step.pod + " status.phase=Running"}
		}
		if err := r.Await(ctx, wants...); err != nil {
			return err
		}
	}
	return nil
}

// RemoveImage removes an image from the node.
func (r *Run) RemoveImage(ctx context.Context, name string) error {
	conn, err := grpc.NewClient(r.Runtime, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = runtimeapi.NewImageServiceClient(conn).RemoveImage(ctx, &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: name}})
	return err
}
