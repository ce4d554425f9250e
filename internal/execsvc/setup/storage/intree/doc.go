// Package intree makes PersistentVolumes of CSI drivers of those of the in-tree plugins that Kubernetes moved to CSI:
// awsElasticBlockStore, azureDisk, azureFile, cinder, gcePersistentDisk, portworxVolume and vsphereVolume. So it does of a pod's
// own volume with such a source. The driver's name, its handle, the attributes and the topology are those of
// k8s.io/csi-translation-lib, which the scheduler, the attach-detach controller and the kubelet use too: the names of attachments
// depend on them.
//
// Package resolver calls it, in the pods' workers. It has no goroutines and no state, reads nothing from the API server, and
// changes no object that it is given.
package intree
