"""The order of the gallery: the story of the theory pages."""

STORY = (
    "margins", "constrained", "alice_bob", "primal_dual", "feature_maps", "kernel_matrix",
    "chessboard", "iris", "digits", "soft_to_hard", "kkt_cases", "losses", "nu_svm",
    "hinge_and_box", "smo_time", "solvers", "perceptron_sgd_pegasos", "svm_and_logistic",
    "least_squares", "regression_tube", "path_along_c", "search",
)  # fmt: skip


class Story:
    """Sort the scripts of a folder; one without a place is an error."""

    def __init__(self, src_dir):
        self.src_dir = src_dir

    def __repr__(self):
        return "<Story>"

    def __call__(self, filename):
        return STORY.index(str(filename).removeprefix("plot_").removesuffix(".py"))
