package nodecert

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// whoAmI returns the user of a client's requests.
func whoAmI(client kubernetes.Interface) (string, error) {
	got, err := client.CoreV1().Nodes().Get(context.Background(), "x", metav1.GetOptions{})
	return got.GetName(), err
}

// clientset returns a clientset of a Client.
func clientset(t *testing.T, c *Client) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// me is this node's user name at the api.
const me = "system:node:n1"

// asks returns a function that reports whether a client's requests succeed with this user name.
func asks(client kubernetes.Interface, user string) func() bool {
	return func() bool {
		who, err := whoAmI(client)
		return err == nil && who == user
	}
}

// isMe returns a function that reports whether requests succeed as this node.
func isMe(t *testing.T, c *Client) func() bool { return asks(clientset(t, c), me) }

// awaitMe waits until requests succeed as this node.
func awaitMe(t *testing.T, c *Client) {
	t.Helper()
	await(t, "requests get through as this node's", isMe(t, c))
}
