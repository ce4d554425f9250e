package attacher

import (
	"context"
	"fmt"
	"sync"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const (
	// finalizer keeps a VolumeAttachment until the volume is detached.
	finalizer = "attacher.podstream.test/attached"
	// volumeKey and nodeKey are annotations with the arguments of the calls.
	volumeKey, nodeKey = "attacher.podstream.test/volume", "attacher.podstream.test/node"
	// firstPause and lastPause bound the pause before a call is repeated, which doubles each time.
	firstPause, lastPause = 50 * time.Millisecond, 5 * time.Second
	// callTimeout bounds a call of the driver.
	callTimeout = 15 * time.Second
)

// Attacher attaches the volumes of a driver.
type Attacher struct {
	driver  string
	client  kubernetes.Interface
	calls   csipb.ControllerClient
	conn    *grpc.ClientConn
	factory informers.SharedInformerFactory
	queue   workqueue.TypedRateLimitingInterface[string]
	cancel  context.CancelFunc
	worker  sync.WaitGroup
}

// Start starts an attacher for a driver, whose controller service is at the endpoint, the path of a socket.
func Start(client kubernetes.Interface, driver, endpoint string) (*Attacher, error) {
	conn, err := grpc.NewClient("unix://"+endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	a := &Attacher{
		driver: driver, client: client, conn: conn, calls: csipb.NewControllerClient(conn), cancel: cancel,
		factory: informers.NewSharedInformerFactory(client, 0),
		queue:   workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstPause, lastPause)),
	}
	add := func(object any) {
		if va, is := object.(*storagev1.VolumeAttachment); is && va.Spec.Attacher == driver {
			a.queue.Add(va.Name)
		}
	}
	if _, err := a.factory.Storage().V1().VolumeAttachments().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: add, UpdateFunc: func(_, object any) { add(object) },
	}); err != nil {
		a.Stop()
		return nil, fmt.Errorf("watch VolumeAttachments: %w", err)
	}
	a.factory.Start(ctx.Done())
	a.worker.Go(func() { a.work(ctx) })
	return a, nil
}

// Stop ends the attacher. Attachments stay as they are.
func (a *Attacher) Stop() {
	a.cancel()
	a.queue.ShutDown()
	a.worker.Wait()
	a.factory.Shutdown()
	_ = a.conn.Close()
}

func (a *Attacher) work(ctx context.Context) {
	for {
		name, over := a.queue.Get()
		if over {
			return
		}
		if err := a.sync(ctx, name); err == nil {
			a.queue.Forget(name)
		} else if ctx.Err() == nil {
			a.queue.AddRateLimited(name)
		}
		a.queue.Done(name)
	}
}
