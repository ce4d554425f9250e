package csivolume

// handleHash is the output of sha256sum for the handle.
const handleHash = "2ecbf244588e1ee53f9a5eb0ca63dcafccbfba051d17996b63f234986e84a875"

// attachmentName is csi- and the output of sha256sum for the handle, the driver and node-1.
const attachmentName = "csi-6c0f6279d5e01d5903611109334b3c1355213644c31559dc7a58f7e613e9b6c7"

// inlineHandle is csi- and the output of sha256sum for the pod's UID and scratch.
const inlineHandle = "csi-2d1dfe177e75aee5fbbe31b3f57f37e409f695ef6e0669dee5700b481858c93d"
