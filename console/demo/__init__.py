"""The whole product on one Linux machine: real SGLang on the CPU as 'the container', reached over real SSH."""
