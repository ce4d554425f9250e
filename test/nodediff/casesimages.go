package nodediff

import (
	"context"
	"strings"

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

// privateStep is a pod with the private image.
type privateStep struct {
	pod, secret string
	policy      v1.PullPolicy
	// refused is the reason for which the pod waits, unless images aren't verified. Empty: it runs.
	refused string
}

// privateSteps begin with a pod that pulls the image with a secret. Then the image is on the node. The last ones come
// after a restart of the agent.
var privateSteps = []privateStep{
	{pod: "owner", secret: "hub"}, {pod: "other", refused: "ImagePullBackOff"}, {pod: "wrong", secret: "wrong", refused: "ImagePullBackOff"},
	{pod: "missing", secret: "missing", refused: "ImagePullBackOff"}, {pod: "never", policy: v1.PullNever, refused: "ErrImageNeverPull"},
	{pod: "same-secret", secret: "hub"}, {pod: "same-credentials", secret: "hub-again"},
	{pod: "other-after-restart", refused: "ImagePullBackOff"}, {pod: "same-secret-after-restart", secret: "hub"},
}

// wants are the sections of the pod in a case.
func (s privateStep) wants(c *Case) []string {
	if s.refused == "" || strings.Contains(c.Config, "NeverVerify") {
		// Each pod has its last event: the agent is killed after that.
		return []string{"pod " + s.pod + " status.phase=Running", "event Pod/" + s.pod + " Started"}
	}
	return []string{"pod " + s.pod + " status.containerStatuses[0].state.waiting.reason=" + s.refused, "event Pod/" + s.pod + " Failed"}
}

// imageCases are those of images that not each pod may use.
func imageCases() []*Case {
	cases := []*Case{
		{Name: "private-image", Act: privateImage},
		{Name: "private-image-never-verified", Config: "imagePullCredentialsVerificationPolicy: NeverVerify", Act: privateImage},
		{Name: "private-image-always-verified", Config: "imagePullCredentialsVerificationPolicy: AlwaysVerify", Act: privateImage},
	}
	for _, c := range cases {
		for _, step := range privateSteps {
			c.Wants = append(c.Wants, step.wants(c)...)
		}
	}
	neverPulled, missingSecret := pod("web", "sleep"), pod("web", "sleep")
	neverPulled.Spec.Containers[0].ImagePullPolicy = v1.PullNever
	missingSecret.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: "absent"}}
	// An image that no agent has pulled.
	return append(cases,
		&Case{Name: "preloaded-image", Pods: []*v1.Pod{pod("web", "sleep")}, Wants: []string{"pod web status.phase=Running"}},
		&Case{Name: "preloaded-image-always-verified", Config: "imagePullCredentialsVerificationPolicy: AlwaysVerify", Pods: []*v1.Pod{pod("web", "sleep")},
			Wants: []string{"pod web status.containerStatuses[0].state.waiting.reason=ImagePullBackOff"}},
		&Case{Name: "preloaded-image-never-pulled", Config: "imagePullCredentialsVerificationPolicy: AlwaysVerify", Pods: []*v1.Pod{neverPulled},
			Wants: []string{"event Pod/web ErrImageNeverPull"}},
		// The kubelet of 1.35 compares an entry without a wildcard with the image's tag too, and so allows none
		// (kubernetes#137629).
		&Case{Name: "preloaded-image-allowed", Config: "{imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages, " +
			"preloadedImagesVerificationAllowlist: [localhost/*]}", Pods: []*v1.Pod{pod("web", "sleep")},
			Wants: []string{"pod web status.phase=Running"}},
		&Case{Name: "preloaded-image-not-allowed", Config: "{imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages, " +
			"preloadedImagesVerificationAllowlist: [localhost/podstream/*]}", Pods: []*v1.Pod{pod("web", "sleep")},
			Wants: []string{"pod web status.containerStatuses[0].state.waiting.reason=ImagePullBackOff"}},
		&Case{Name: "preloaded-image-missing-secret", Pods: []*v1.Pod{missingSecret},
			Wants: []string{"pod web status.phase=Running", "event Pod/web FailedToRetrieveImagePullSecret"}},
	)
}

// privateImage carries out the steps.
func privateImage(ctx context.Context, r *Run) error {
	if err := r.RemoveImage(ctx, privateName); err != nil {
		return err
	}
	for name, config := range map[string]string{
		"hub": dockerConfig, "hub-again": dockerConfig, "wrong": strings.ReplaceAll(dockerConfig, hubPassword, "guess"),
	} {
		secret := &v1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Type: v1.SecretTypeDockerConfigJson, Data: map[string][]byte{v1.DockerConfigJsonKey: []byte(config)},
		}
		if _, err := r.server.Client.CoreV1().Secrets(metav1.NamespaceDefault).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	restarted := false
	for _, step := range privateSteps {
		if !restarted && strings.HasSuffix(step.pod, "-after-restart") {
			restarted = true
			if err := r.Restart(ctx); err != nil {
				return err
			}
		}
		p := pod(step.pod, "sleep")
		p.Spec.Containers[0].Image = privateName
		if step.policy != "" {
			p.Spec.Containers[0].ImagePullPolicy = step.policy
		}
		if step.secret != "" {
			p.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: step.secret}}
		}
		if err := r.Create(ctx, p); err != nil {
			return err
		}
		if err := r.Await(ctx, step.wants(r.Case)...); err != nil {
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
