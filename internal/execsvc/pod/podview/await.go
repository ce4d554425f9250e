package podview

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// Changing is what AwaitEnd needs of a Board.
type Changing interface {
	Get(uid types.UID) (Pod, bool)
	Since(after Position) (changes []Change, now Position, more <-chan struct{}, resumed bool)
}

// AwaitEnd waits until the pod has ended or isn't on the board any more, or ctx has ended. It reports whether the pod
// has ended.
func AwaitEnd(ctx context.Context, b Changing, uid types.UID) bool {
	var at Position
	for {
		var more <-chan struct{}
		_, at, more, _ = b.Since(at)
		if p, ok := b.Get(uid); !ok || p.Status != nil && podmeta.IsTerminal(p.Status.Phase) {
			return true
		}
		select {
		case <-more:
		case <-ctx.Done():
			return false
		}
	}
}
