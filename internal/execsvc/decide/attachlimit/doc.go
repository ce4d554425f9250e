// Package attachlimit decides when a pod fails because its node can't have another volume of a CSI driver attached.
//
// As with the kubelet, nothing is counted at admission: the scheduler does that, by the limits in the CSINode. But these may have
// become wrong meanwhile, for example because a network interface has taken an attachment of the machine. Then the driver's
// controller refuses the attachment with ResourceExhausted, and a pod that waited for it would wait for ever. The kubelet rejects
// such a pod once it has waited for about two minutes, if the CSIDriver has nodeAllocatableUpdatePeriodSeconds: its controller
// creates another one, which the scheduler puts elsewhere.
//
// Package apivolumes reads the attachment's error, and the Agent acts on the decision. The package has pure functions and an error
// type; it runs no goroutines.
package attachlimit
